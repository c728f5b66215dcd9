"""Small faults that can be put into a Python source: the mutants of `make mutants`.

A mutant replaces one span of the source by another text. Each of these changes a rule:

* comparisons (`<` and `<=`, `==` and `!=`, `in` and `not in`), arithmetic, `and` and `or`, `not`, signs
* numbers plus one, booleans flipped (default values of arguments too), `min` and `max`, `any` and `all` swapped
* conditions negated, `break` and `continue` swapped, `return value` without its value unless that is a constant
* statements removed: calls, raises, deletions, changes of an attribute, an item or by `+=`

No mutant touches what decides nothing: texts, annotations, docstrings, decorators, logging, `__repr__`, `assert`,
and `strict=True` of `zip`, which is an assertion too. A plain `name = value` stays: without it, the next line fails.
"""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS = {"log", "logger", "logging", "warnings"}
NEGATED_AS_COMPARISON = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file. `start` and `end` count bytes; `first` and `last` are the lines of its statement."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    first: int
    last: int
    at_import: bool
    """Runs when the module is imported: of a module's or a class's body, or a default value of an argument."""

    def applied(self, source: bytes) -> bytes:
        """Returns the source with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line}: {before} -> {after}"


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Returns every mutant of a source, in the order of the text."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._offsets = [0]
        for line in source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._first = self._last = 0
        self._depth = 0

    # spans

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._offsets[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offsets[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _replace(self, start: int, end: int, after: str, context: ast.expr | ast.stmt) -> None:
        """Note a mutant. Its before and after show the expression around it."""
        low, high = self._start(context), self._end(context)
        shown = [self._source[low:start].decode(), after, self._source[end:high].decode()]
        self.found.append(
            Mutant(
                self._path,
                context.lineno,
                low,
                high,
                self._text(context),
                "".join(shown),
                self._first,
                self._last,
                self._depth == 0,
            )
        )

    def _operator(self, left: ast.expr, right: ast.expr, old: str, new: str, context: ast.expr | ast.stmt) -> None:
        """Replace an operator: the one in the text between its operands, which may also have parentheses."""
        start = self._end(left)
        at = start + self._source[start : self._start(right)].index(old.encode())
        self._replace(at, at + len(old), new, context)

    # statements

    def visit(self, node: ast.AST) -> None:
        """Visit a node; a statement sets the lines that count as its own."""
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        outer = self._first, self._last
        body = getattr(node, "body", None)
        self._first = node.lineno
        self._last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        super().visit(node)
        self._first, self._last = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        if node.name in ("__repr__", "__str__"):
            return
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1

    visit_FunctionDef = _function  # noqa: N815
    visit_AsyncFunctionDef = _function  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            if not isinstance(node.target, ast.Name):
                self._remove(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)
            if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
                self._remove(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        self._remove(node)
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self._operator(node.target, node.value, f"{old}=", f"{new}=", node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and not _is_silent(node.value):
            self.generic_visit(node)
            self._remove(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._remove(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._remove(node)

    def _remove(self, node: ast.stmt) -> None:
        self._replace(self._start(node), self._end(node), "pass", node)

    def visit_Return(self, node: ast.Return) -> None:
        self.generic_visit(node)
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._replace(self._start(node), self._end(node), "return None", node)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(self._start(node), self._end(node), "continue", node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(self._start(node), self._end(node), "break", node)

    def visit_If(self, node: ast.If) -> None:
        if self._text(node.test) != "TYPE_CHECKING":
            self._condition(node)

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    visit_While = _condition  # noqa: N815
    visit_IfExp = _condition  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        """Negate a condition, unless another mutant of it does."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], NEGATED_AS_COMPARISON):
            return
        self._replace(self._start(test), self._end(test), f"not ({self._text(test)})", test)

    # expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        for left, right, op in zip((node.left, *node.comparators), node.comparators, node.ops, strict=False):
            self._operator(left, right, *COMPARISONS[type(op)], node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.generic_visit(node)
        if type(node.op) in ARITHMETIC:
            self._operator(node.left, node.right, *ARITHMETIC[type(node.op)], node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.generic_visit(node)
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(left, right, old, new, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not | ast.USub):
            sign = "not " if isinstance(node.op, ast.Not) else "-"
            self._replace(self._start(node), self._start(node) + len(sign), "", node)

    def visit_Call(self, node: ast.Call) -> None:
        for child in (node.func, *node.args, *(k.value for k in node.keywords if k.arg != "strict")):
            self.visit(child)
        if isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
            self._replace(self._start(node.func), self._end(node.func), SWAPPED[node.func.id], node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(self._start(node), self._end(node), str(not node.value), node)
        elif isinstance(node.value, int | float):
            self._replace(self._start(node), self._end(node), repr(node.value + 1), node)


def _is_silent(call: ast.Call) -> bool:
    """Whether a call only logs or warns."""
    name: ast.expr = call.func
    while isinstance(name, ast.Attribute):
        name = name.value
    return isinstance(name, ast.Name) and name.id in LOGGERS


def sample(sources: dict[str, bytes], size: int, seed: int, line: int | None = None) -> tuple[list[Mutant], int]:
    """Returns so many mutants of several files, drawn evenly, and how many there are. A seed gives the same ones."""
    every = [mutant for path in sorted(sources) for mutant in mutants(path, sources[path])]
    every = [mutant for mutant in every if line in (None, mutant.line)]
    drawn = random.Random(seed).sample(range(len(every)), min(size, len(every)))
    return [every[index] for index in sorted(drawn)], len(every)
