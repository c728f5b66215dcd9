"""Schedulers and quotas from outside: by the entry point groups `gfs.schedulers` and `gfs.quotas`, or as objects."""

from __future__ import annotations

import re
from typing import Any, cast

from gfs.assembly.definitions import Composition, SchedulerDefinition
from gfs.assembly.parameters import QUOTAS
from gfs.assembly.quotas import find_quota
from gfs.domain.errors import InputError
from gfs.entry_points import Offer, find_offers

GROUP = "gfs.schedulers"


def find_plugins() -> list[Offer]:
    """The schedulers that are offered, by name."""
    return find_offers(GROUP)


def load_scheduler(plugin: Offer) -> SchedulerDefinition:
    """Import it; raises InputError with one line if that fails or gives something else."""
    definition = as_definition(plugin.import_it())
    if definition.name != plugin.name:
        raise InputError(f"it calls itself {definition.name!r}: entry point and definition must have one name")
    return definition


def as_definition(thing: Any) -> SchedulerDefinition:
    """The object itself if it can be used as a scheduler definition; else an InputError that says what it lacks."""
    if isinstance(thing, type):
        raise InputError(f"{thing.__name__} is a class: give an object of it")
    lacking = [word for word in ("name", "summary", "quota") if not isinstance(getattr(thing, word, None), str)]
    if not callable(getattr(thing, "build", None)):
        lacking.append("build(context)")
    if lacking:
        kind = type(thing).__name__
        raise InputError(f"an object of type {kind} is no scheduler definition: it lacks {', '.join(lacking)}")
    if not re.fullmatch(r"[^\s,]+", thing.name):
        raise InputError(f"its name {thing.name!r} cannot be typed in a list like gfs,static")
    if isinstance(thing, Composition) and thing.quota not in QUOTAS:
        try:
            find_quota(thing.quota)
        except InputError as error:
            raise InputError(f"its quota {thing.quota!r} is unknown: choose one of {', '.join(QUOTAS)}") from error
    return cast(SchedulerDefinition, thing)
