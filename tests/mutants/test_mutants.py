"""The mutants of `make mutants`: which changes are tried, and which tests can notice them."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from mutations import Mutant, mutants, sample
from reach import Reach, importers


def found(source: str) -> list[str]:
    """The sources of all mutants."""
    text = dedent(source).encode()
    changed = [mutant.applied(text).decode() for mutant in mutants("a.py", text)]
    for other in changed:
        ast.parse(other)
    return changed


def inside(statement: str) -> list[str]:
    """The mutants of a statement in a loop of a function."""
    head = "def f(a, b):\n  while a:\n    "
    negated = head.replace("a:", "not (a):") + statement
    return sorted(text.removeprefix(head) for text in found(head + statement) if text != negated)


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a >= b", ["x = a > b"]),
        ("x = (a) == (b)", ["x = (a) != (b)"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a < b <= c", ["x = a < b < c", "x = a <= b <= c"]),
        ("x = a + b", ["x = a - b"]),
        ("x = a // b", ["x = a / b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not (a or b)", ["x = (a or b)", "x = not (a and b)"]),
        ("x = -a", ["x = a"]),
        ("x = 7", ["x = 8"]),
        ("x = 0.5", ["x = 1.5"]),
        ("x = True", ["x = False"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = any(a)", ["x = all(a)"]),
        ("x = a if b else c", ["x = a if not (b) else c"]),
        ("x = [y for y in a if b]", ["x = [y for y in a if not (b)]"]),
        ("x += a", ["pass", "x -= a"]),
        ("x.y = a", ["pass"]),
        ("x[a] = b", ["pass"]),
        ("del x[a]", ["pass"]),
        ("a.add(b)", ["pass"]),
        ("return a", ["return None"]),
        ("return False", ["return True"]),
        ("break", ["continue"]),
        ("continue", ["break"]),
        ("raise ValueError(1)", ["pass"]),
        ("x = 'ä' * a", ["x = 'ä' / a"]),
    ],
)
def test_the_changes_of_a_statement(statement: str, changed: list[str]) -> None:
    assert inside(statement) == changed


@pytest.mark.parametrize(
    "statement",
    [
        "x = a",
        "x = 'a text'",
        "'a docstring'",
        "x: dict[str, int | None]",
        "x = f'{a + 1}'",
        "log.info('text', a + 1)",
        "assert a < b",
        "return",
        "return None",
        "return 'a text'",
        "x = zip(a, b, strict=True)",
    ],
)
def test_what_decides_nothing_stays(statement: str) -> None:
    assert inside(statement) == []


def test_a_condition_is_negated_once() -> None:
    assert inside("if a == b: x()") == ["if a != b: x()", "if a == b: pass"]
    assert inside("if not a: x()") == ["if a: x()", "if not a: pass"]


def test_decorators_annotations_and_type_checking_stay() -> None:
    assert found("@dataclass(frozen=True)\nclass A:\n  x: int | None\n") == []
    assert found("if TYPE_CHECKING:\n  x()\n") == []
    assert found("def f(a: int | None = None) -> int | None: ...\n") == []
    assert found("class A:\n  def __repr__(self):\n    return 1 + 2\n") == []


def test_a_default_value_runs_at_import_and_counts_for_users_of_the_module() -> None:
    source = b"def f(a=1):\n  x = (\n    2\n  )\n  return x\n"
    default, inner, result = mutants("src/gfs/a.py", source)
    assert (default.at_import, inner.at_import, result.at_import) == (True, False, False)
    assert (inner.first, inner.last) == (2, 4)
    here = Reach("t", 0.1, {"src/gfs/a.py": frozenset({5})})
    begins = Reach("t", 0.1, {"src/gfs/a.py": frozenset({2})})
    user = Reach("t", 0.1, {"src/gfs/b.py": frozenset()})

    def noticed(mutant: Mutant) -> list[bool]:
        return [reach.executes(mutant, ["src/gfs/b.py"]) for reach in (here, begins, user)]

    assert noticed(default) == [True, True, True]
    assert noticed(inner) == [False, True, False]
    assert noticed(result) == [True, False, False]


def test_importers_are_found_in_both_spellings(tmp_path: Path) -> None:
    package = tmp_path / "src" / "gfs"
    package.mkdir(parents=True)
    texts = {
        "a": "",
        "b": "from gfs.a import x",
        "c": "from gfs import b, a",
        "d": "from gfs.ab import x",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    assert sorted(importers("src/gfs/a.py", tmp_path)) == ["src/gfs/b.py", "src/gfs/c.py"]


def test_a_seed_gives_the_same_sample_and_another_seed_another_one() -> None:
    sources = {"b.py": b"x = [1, 2, 3, 4]\n", "a.py": b"x = 5\ny = 6\n"}
    reverse = dict(reversed(sources.items()))
    drawn, number = sample(sources, 3, seed=7)
    assert number == 6
    assert sample(reverse, 3, seed=7) == (drawn, 6)
    assert len({str(sample(sources, 3, seed)[0]) for seed in range(20)}) > 10
    assert [mutant.path for mutant in sample(sources, 9, seed=1)[0]] == ["a.py"] * 2 + ["b.py"] * 4
    assert [str(mutant) for mutant in sample(sources, 9, seed=1, line=2)[0]] == ["a.py:2: 6 -> 7"]
