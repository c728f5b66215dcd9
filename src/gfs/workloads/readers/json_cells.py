"""JSON in the cells of a trace: roles of a task, labels and resources of a node (docs/reference/files.md#json-columns).

A cell that cannot be used raises ValueError with the reason in words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import Any

from gfs.domain.limits import MOST_AMOUNT, MOST_CPUS, MOST_GPUS, MOST_PODS
from gfs.domain.task import MEMORY, PODS, Requests, Role, Task
from gfs.domain.text import suggestion
from gfs.domain.units import MICRO

ROLE_KEYS = ("pods", "gpus", "cpus", "memory", "resources")
_OWN_PLACE = {"gpu": "gpus", "gpus": "gpus", "cpu": "cpus", "cpus": "cpus", "memory": "memory", "pods": "pods"}
"""Names that are no further resource of a role -> the key that states them."""
_OF_NODES = {"gpu": "gpu_capacity_num", "gpus": "gpu_capacity_num", "cpu": "cpu_num", "cpus": "cpu_num"}
"""Names that are no further resource of a node -> the column that states them."""


def read_roles(text: str) -> tuple[Role, ...]:
    """Returns the roles of a task, of which at least one asks for GPUs."""
    cell = _json(text)
    if not isinstance(cell, list) or not cell:
        raise ValueError(f'must be a JSON array of roles, such as [{{"pods": 4, "gpus": 8}}], not {_short(cell)}')
    roles = tuple(_role(f"role {number}", each) for number, each in enumerate(cell, 1))
    if not any(role.micro_per_pod for role in roles):
        raise ValueError("no role asks for GPUs; at least one must")
    return roles


def read_resources(text: str) -> Requests:
    """Returns what a node has besides GPUs and CPUs, by name."""
    amounts = _amounts("", _object("", _json(text)), _OF_NODES)
    for name, amount in amounts:
        if name in (MEMORY, PODS) and (amount == 0 or (name == PODS and amount != floor(amount))):
            raise ValueError(
                f"{name} must be {'whole and ' * (name == PODS)}above 0; leave it out where it limits nothing"
            )
    return amounts


def read_labels(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the labels of a node."""
    labels = tuple(_object("", _json(text)).items())
    for key, value in labels:
        if not isinstance(value, str) or not value:
            raise ValueError(f'label {_short(key)} must be a text such as "r7", not {_short(value)}')
        _check_name(key)
        _check_name(value)
    return labels


def read_name(text: str) -> str:
    """Returns a text that is a name."""
    _check_name(text)
    return text


def roles_text(task: Task) -> str:
    """Returns the roles of a task as `read_roles` reads them; nothing where the other columns say all."""
    if not task.mixed and not task.memory_per_pod and not task.resources:
        return ""
    return json.dumps([_role_object(role) for role in task.roles])


def object_text(pairs: Iterable[tuple[str, float | str]]) -> str:
    """Returns labels or amounts by name as a JSON object; nothing if there are none."""
    values = {name: _plain(value) for name, value in pairs}
    return json.dumps(values) if values else ""


def _role_object(role: Role) -> dict[str, Any]:
    parts = {"gpus": role.gpus_per_pod, "cpus": role.cpus_per_pod, "memory": role.memory_per_pod}
    stated = {"pods": role.pods} | {key: _plain(amount) for key, amount in parts.items() if amount}
    return stated | ({"resources": {name: _plain(amount) for name, amount in role.resources}} if role.resources else {})


def _plain(value: float | str) -> float | str:
    """Returns whole numbers without '.0'."""
    return value if isinstance(value, str) or value != floor(value) else int(value)


def _role(where: str, value: Any) -> Role:
    stated = _object(where, value, ROLE_KEYS)
    if "pods" not in stated:
        raise ValueError(f"{where}: pods is missing")
    pods = _number(f"{where}: pods", stated["pods"], MOST_GPUS)
    gpus = _number(f"{where}: gpus", stated.get("gpus", 0), MOST_GPUS)
    if pods < 1 or pods != floor(pods):
        raise ValueError(f"{where}: pods must be a whole number of 1 or more, not {_short(stated['pods'])}")
    if gpus > 1 and gpus != floor(gpus):
        raise ValueError(f"{where}: gpus must be whole above 1, not {gpus:g}")
    if 0 < gpus * MICRO <= 0.5:
        raise ValueError(f"{where}: gpus rounds to nothing: the least is a millionth of a GPU")
    if not gpus and pods > MOST_PODS:
        raise ValueError(f"{where}: at most {MOST_PODS:,} pods without GPUs, not {_short(stated['pods'])}")
    return Role(
        int(pods),
        gpus,
        cpus_per_pod=_number(f"{where}: cpus", stated.get("cpus", 0), MOST_CPUS),
        memory_per_pod=_number(f"{where}: memory", stated.get("memory", 0), MOST_AMOUNT),
        resources=_amounts(f"{where}: ", _object(f"{where}: resources", stated.get("resources", {})), _OWN_PLACE),
    )


def _amounts(where: str, stated: Mapping[str, Any], elsewhere: Mapping[str, str]) -> Requests:
    for name in stated:
        _check_name(name)
        if name in elsewhere:
            raise ValueError(f"{where}{name} has a place of its own: {elsewhere[name]}")
    return tuple((name, _number(f"{where}{name}", amount, MOST_AMOUNT)) for name, amount in stated.items())


def _number(what: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} must be a number, not {_short(value)}")
    if not 0 <= value <= most:
        raise ValueError(f"{what} must be 0 to {most:,.0f}, not {_short(value)}")
    return float(value)


def _object(where: str, value: Any, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Returns a JSON object, which has no other keys than these, if any are given."""
    if not isinstance(value, dict):
        raise ValueError(f"{where + ' ' if where else ''}must be a JSON object, such as {{...}}, not {_short(value)}")
    unknown = next((key for key in value if keys and key not in keys), None)
    if unknown is not None:
        raise ValueError(f"{where}: unknown key {_short(unknown)}: {suggestion(unknown, keys)}")
    return value


def _check_name(name: str) -> None:
    if not name or "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"{_short(name)} is no name: it is empty, or holds a NUL or half a character")


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_twins)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not JSON that can be used: it is nested too deeply") from None


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a finite number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object, of which no key may appear twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {_short(key)} appears twice")
        found[key] = value
    return found


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
