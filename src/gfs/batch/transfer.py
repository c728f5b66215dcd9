"""Transfer to a worker process: the workload by column, a scheduler by name where that is enough."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import NamedTuple

from gfs.assembly.definitions import SchedulerDefinition
from gfs.assembly.plugins import one_line
from gfs.assembly.schedulers import find_scheduler, is_registered
from gfs.domain.errors import InputError
from gfs.domain.task import Task
from gfs.domain.workload import Workload

TASK_COLUMNS = tuple(field.name for field in fields(Task) if field.init)
OTHER_FIELDS = tuple(field.name for field in fields(Workload) if field.name != "tasks")
"""All else that a workload has: plain columns already."""


def pack_workload(workload: Workload) -> bytes:
    """A workload by column: packed task by task it would take ten times as long, and longer to unpack."""
    columns = [[getattr(task, name) for task in workload.tasks] for name in TASK_COLUMNS]
    rest = {name: getattr(workload, name) for name in OTHER_FIELDS}
    return pickle.dumps((columns, rest))


def unpack_workload(packed: bytes) -> Workload:
    """The workload that was packed."""
    columns, rest = pickle.loads(packed)
    return Workload(tuple(map(Task, *columns)), **rest)


class PackedScheduler(NamedTuple):
    """A scheduler on its way to a worker."""

    name: str
    pickled: bytes | None
    """None where the worker finds it by its name, as it does ours and those of plug-ins."""


def pack_scheduler(definition: SchedulerDefinition) -> PackedScheduler:
    """What a worker needs to have this scheduler; an error if it cannot be handed over."""
    if is_registered(definition):
        return PackedScheduler(definition.name, None)
    import cloudpickle  # takes a while to load, and few need it

    try:
        return PackedScheduler(definition.name, cloudpickle.dumps(definition))
    except Exception as error:  # pickling fails in many ways
        raise _not_portable(definition.name, error) from error


def unpack_scheduler(packed: PackedScheduler) -> SchedulerDefinition:
    """The scheduler that was packed; an error if this process does not know what it is made of."""
    if packed.pickled is None:
        return find_scheduler(packed.name)
    try:
        definition: SchedulerDefinition = pickle.loads(packed.pickled)
    except Exception as error:  # such as a module that only the parent can import
        raise _not_portable(packed.name, error) from error
    return definition


def _not_portable(name: str, error: Exception) -> InputError:
    return InputError(
        f"scheduler {name!r} cannot be handed to a process of its own ({one_line(error)}):"
        " put it into an installed module, without open files or locks in it, or set workers to 1"
    )
