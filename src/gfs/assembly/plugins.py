"""Schedulers from outside: what installed distributions offer under the entry point group `gfs.schedulers`.

A plug-in is imported only when it is asked for; one that is broken does not disturb the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gfs.assembly.definitions import Composition, SchedulerDefinition
from gfs.assembly.parameters import QUOTAS
from gfs.domain.errors import InputError
from gfs.domain.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "gfs.schedulers"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A scheduler that an installed distribution offers. To know whether it can be used, load it."""

    distribution: str
    """Name and version: 'gfs-roomy 0.1.0'."""
    entry_point: EntryPoint

    @property
    def name(self) -> str:
        """What the scheduler is called."""
        return self.entry_point.name

    @property
    def source(self) -> str:
        """Where it comes from, for people: 'gfs-roomy 0.1.0 (entry point roomy = gfs_roomy:ROOMY)'."""
        return f"{self.distribution} (entry point {self.name} = {self.entry_point.value})"

    def load(self) -> SchedulerDefinition:
        """Import it; raises InputError with one line if that fails or gives something else."""
        try:
            loaded = self.entry_point.load()
            definition = as_definition(loaded)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
            raise InputError(one_line(error)) from error
        if definition.name != self.name:
            raise InputError(f"it calls itself {definition.name!r}: entry point and definition must have one name")
        return definition


def find_plugins() -> list[Plugin]:
    """What is offered, by name. Reads the metadata of all installed distributions, but imports none of them."""
    from importlib.metadata import distributions  # takes a while, and most runs need no plug-in

    found: list[Plugin] = []
    seen: set[str] = set()
    for distribution in distributions():
        try:
            name, plugins = _offers(distribution)
        except Exception:  # metadata that cannot be read: of which plug-in, if any, nobody can tell
            continue
        # As with imports, the first of that name on the path counts.
        found += plugins if name not in seen else ()
        seen.add(name)
    return sorted(found, key=lambda plugin: (plugin.name, plugin.source))


def _offers(distribution: Distribution) -> tuple[str, list[Plugin]]:
    """The schedulers of a distribution, under its normalized name; '' for one that has none."""
    if GROUP not in (distribution.read_text("entry_points.txt") or ""):
        return "", []
    name = distribution.metadata["Name"]
    entries = distribution.entry_points.select(group=GROUP)
    plugins = [Plugin(f"{name} {distribution.version}", entry) for entry in entries]
    return re.sub(r"[-_.]+", "-", name).lower(), plugins


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
        raise InputError(f"its quota {thing.quota!r} is unknown: choose one of {', '.join(QUOTAS)}")
    return cast(SchedulerDefinition, thing)
