"""Objects as named fields in MessagePack, and back: what a saved state is written in.

Only data is written: numbers, texts, bytes, the containers of `KINDS`, and objects whose class says by its constructor
what they are made of: dataclasses, msgspec Structs, NamedTuples, members of enums, and the few of `SPECIAL`. Each class
has a table of named fields. An object that is met twice is one row of it, so what was shared is shared again.

    {"content": ..., "tables": {"Run": {"class": "gfs.core.run:Run", "fields": ["task", ...], "rows": [[...], ...]}}}

In content and rows an array is a tuple, and a map has one key that says what its value is: `{"list": [...]}`,
`{"map": {...}}`, or `{"Run": 3}` for row 3 of a table.

A field that a class has and a table does not gets its default; where it has none, and where a table has a field that
the class does not have, reading fails. Only classes of `OURS` and of packages that the caller names are made.
"""

from __future__ import annotations

import inspect
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from fractions import Fraction
from importlib import import_module
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gfs.core.node import Node
from gfs.domain.node import NodeSpec
from gfs.domain.task import Role
from gfs.gc_paused import gc_paused

OURS = ("gfs.core", "gfs.domain", "gfs.forecasting", "gfs.live.translate", "gfs.policies", "gfs.quota")
"""Packages of GFS whose classes may be in a saved state."""
PLAIN = frozenset({type(None), bool, float, str, bytes})
"""Types that MessagePack has itself, besides numbers of at most 64 bits."""
LEFT_OUT = {"left out": None}
"""Stands in a row for a field that gets its default."""


class NotDataError(TypeError):
    """A value that has no named fields, or whose class is not known here."""


def _random(state: Any) -> Random:
    random = Random()
    random.setstate(state)
    return random


KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: ("int", hex, lambda digits: int(digits, 16)),
    list: ("list", tuple, list),
    dict: ("dict", lambda entries: tuple(entries.items()), dict),
    Counter: ("Counter", lambda entries: tuple(entries.items()), lambda entries: Counter(dict(entries))),
    OrderedDict: ("OrderedDict", lambda entries: tuple(entries.items()), OrderedDict),
    set: ("set", tuple, set),
    frozenset: ("frozenset", tuple, frozenset),
    deque: ("deque", lambda items: (tuple(items), items.maxlen), lambda parts: deque(*parts)),
    date: ("date", date.isoformat, date.fromisoformat),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    timedelta: ("timedelta", lambda time: (time.days, time.seconds, time.microseconds), lambda time: timedelta(*time)),
    Fraction: ("Fraction", lambda part: (part.numerator, part.denominator), lambda parts: Fraction(*parts)),
    Random: ("Random", Random.getstate, _random),
}
"""Type -> its name in a file, what it is written as, and how it is made from that."""
_MADE_BY_NAME = {name: make for name, _, make in KINDS.values()}


class _Form(NamedTuple):
    """How objects of a class are taken apart and made."""

    fields: dict[str, str]
    """Name in a file -> parameter of `make`."""
    needed: frozenset[str]
    """Fields without a default."""
    make: Callable[..., Any]
    values: Callable[[Any], Iterable[Any]]
    """Object -> the values of its fields, in their order."""

    @classmethod
    def of(cls, make: Callable[..., Any], values: Callable[[Any], Iterable[Any]]) -> _Form:
        """The fields are the parameters of `make`."""
        parameters = inspect.signature(make).parameters.values()
        needed = frozenset(each.name.lstrip("_") for each in parameters if each.default is each.empty)
        return cls({each.name.lstrip("_"): each.name for each in parameters}, needed, make, values)


def _node(spec: NodeSpec, cordoned: bool, failed: bool) -> Node:
    node = Node(spec)
    node.cordoned, node.failed = cordoned, failed
    return node


def _role(**facts: Any) -> Role:
    role = Role.__new__(Role)
    for name, value in facts.items():
        setattr(role, name, value)
    return role


def _array(dtype: str, shape: tuple[int, ...], order: Any, data: bytes) -> Any:
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape, order=order).copy(order)[()]


def _array_parts(array: Any) -> tuple[Any, ...]:
    if array.dtype.kind not in "biufcSU":
        raise NotDataError(f"an array of {array.dtype}")
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return array.dtype.str, array.shape, order, array.tobytes(order)


def _booster(model: str) -> Any:
    return import_module("lightgbm").Booster(model_str=model)


ARRAY = "numpy:ndarray"
SPECIAL = {
    "gfs.core.node:Node": _Form.of(_node, lambda node: (node.spec, node.cordoned, node.failed)),
    "gfs.domain.task:Role": _Form(
        {name: name for name in Role.__slots__},
        frozenset(Role.__slots__),
        _role,
        lambda role: [getattr(role, name) for name in Role.__slots__],
    ),
    ARRAY: _Form.of(_array, _array_parts),
    "lightgbm.basic:Booster": _Form.of(_booster, lambda booster: (booster.model_to_string(),)),
}
"""Classes whose constructor does not say what their objects are made of."""


def _form(name: str, packages: frozenset[str]) -> _Form:
    """The form of a class, if its objects may be in a state."""
    if name in SPECIAL:
        return SPECIAL[name]
    module, _, qualified = name.partition(":")
    kind = None
    if qualified.isidentifier() and f"{module}.".startswith(tuple(f"{each}." for each in (*OURS, *packages))):
        kind = getattr(import_module(module), qualified, None)
    if not isinstance(kind, type) or kind.__module__ != module:
        raise NotDataError(f"an object of {name.replace(':', '.')}, which has no place in a state")
    if issubclass(kind, Enum):
        return _Form.of(lambda name: kind[name], lambda member: (member.name,))
    if not (is_dataclass(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields")):
        raise NotDataError(f"an object of {name.replace(':', '.')}, which is no dataclass, Struct or NamedTuple")
    names, settle = tuple(inspect.signature(kind).parameters), getattr(kind, "settle", None)

    def values(value: Any) -> Iterable[Any]:
        if settle is not None:  # it puts work off
            settle(value)
        return [getattr(value, name) for name in names]

    return _Form.of(kind, values)


def packages_of(kinds: Iterable[type]) -> frozenset[str]:
    """The packages of classes that are not ours."""
    return frozenset(kind.__module__.partition(".")[0] for kind in kinds) - {"gfs"}


# -- writing -------------------------------------------------------------------------------------------------


@gc_paused()
def pack(content: Any, packages: Iterable[str] = ()) -> tuple[bytes, list[str]]:
    """Write a value; also what was left out of it, in words. `NotDataError`: it cannot be written.

    A field that cannot be written is left out if it has a default: a fitted model that is no data is fitted again.
    Nothing is left out of tasks and nodes (`gfs.domain`).
    """
    writer = _Writer(frozenset(packages))
    written = {"content": writer.value(content), "tables": writer.tables}
    return msgspec.msgpack.encode(written), writer.left_out


class _Writer:
    def __init__(self, packages: frozenset[str]) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.left_out: list[str] = []
        self._packages = packages
        self._forms: dict[type, tuple[str, _Form]] = {}
        """Class -> its table, and how its objects are taken apart."""
        self._seen: dict[int, tuple[Any, dict[str, int]]] = {}
        """id -> the object, which is kept so that the id stays its own, and its reference."""

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN or (kind is int and -(1 << 63) <= value < 1 << 63):
            return value
        if kind is tuple:
            return [each if type(each) in PLAIN else self.value(each) for each in value]
        if kind is dict and all(type(key) is str for key in value):
            return {"map": {key: self.value(each) for key, each in value.items()}}
        if kind in KINDS:
            name, parts, _ = KINDS[kind]
            return {name: self.value(parts(value))}
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if isinstance(value, np.generic):  # a number, written as an array without axes
            return self._row(np.asarray(value))
        return self._row(value)

    def _row(self, value: Any) -> dict[str, int]:
        kind = type(value)
        if kind not in self._forms:
            self._forms[kind] = self._new_table(kind)
        name, form = self._forms[kind]
        row = []
        for field, each in zip(form.fields, form.values(value), strict=True):
            try:
                row.append(each if type(each) in PLAIN else self.value(each))
            except NotDataError as error:
                if field in form.needed or kind.__module__.startswith("gfs.domain."):
                    raise
                row.append(LEFT_OUT)
                self.left_out.append(f"{field} of {kind.__name__}: {error}")
        rows = self.tables[name]["rows"]
        reference = {name: len(rows)}
        rows.append(row)
        self._seen[id(value)] = value, reference
        return reference

    def _new_table(self, kind: type) -> tuple[str, _Form]:
        of = f"{kind.__module__}:{kind.__qualname__}"
        form, name = _form(of, self._packages), kind.__name__
        if name in self.tables or name in _MADE_BY_NAME or name in ("map", *LEFT_OUT):
            name = of
        self.tables[name] = {"class": of, "fields": list(form.fields), "rows": []}
        return name, form


# -- reading -------------------------------------------------------------------------------------------------


@gc_paused()
def unpack(data: bytes, packages: Iterable[str] = ()) -> Any:
    """Read what `pack` has written. Any exception: it cannot be read."""
    written = msgspec.msgpack.decode(data)
    return _Reader(written["tables"], frozenset(packages)).value(written["content"])


class _Reader:
    def __init__(self, tables: dict[str, Any], packages: frozenset[str]) -> None:
        self._tables = tables
        self._packages = packages
        self._forms: dict[str, _Form] = {}
        self._made: dict[tuple[str, int], Any] = {}

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN or kind is int:
            return value
        if kind is list:
            return tuple([self.value(each) for each in value])
        ((name, inner),) = value.items()
        if name == "map":
            return {key: self.value(each) for key, each in inner.items()}
        if name in _MADE_BY_NAME:
            return _MADE_BY_NAME[name](self.value(inner))
        if (name, inner) not in self._made:
            self._made[name, inner] = self._object(name, inner)
        return self._made[name, inner]

    def _object(self, name: str, place: int) -> Any:
        table = self._tables[name]
        form = self._forms.get(name) or self._forms.setdefault(name, self._form(table["class"], table["fields"]))
        row = zip(table["fields"], table["rows"][place], strict=True)
        return form.make(**{form.fields[field]: self.value(each) for field, each in row if each != LEFT_OUT})

    def _form(self, name: str, fields: list[str]) -> _Form:
        """How objects of a class are made, if they can be made of these fields."""
        form = _form(name, self._packages)
        if unknown := sorted(set(fields) - form.fields.keys()):
            raise NotDataError(f"{name.replace(':', '.')} has a field {unknown[0]!r} that this GFS does not know")
        if missing := sorted(form.needed - set(fields)):
            raise NotDataError(f"{name.replace(':', '.')} lacks the field {missing[0]!r}")
        return form
