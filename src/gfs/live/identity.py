"""Names of tasks and their past: a pod that its owner creates again continues a task.

The API objects do not say that a pod takes the place of another one. So the controller remembers names, and saves them
with the snapshot. Names hold no room on any node. Without them, a pod that was created again is the first run of a new
task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gfs.live.observe import CORE
from gfs.live.translate.gangs import GroupName
from gfs.live.translate.pods import PodView

FORGET = 3600.0
"""Seconds after which a task without pods is over, although its owner may create some again."""
MANY = "pods of "
"""How the place of pods begins that are interchangeable: those of a Job or a ReplicaSet."""


class Past(msgspec.Struct):
    """The past of a task."""

    submitted: float
    """When its first pod was created."""
    place: str
    """Which pods continue it: of this group, of this owner, or this one alone (`place_of`)."""
    number: int = 0
    """Which of several tasks of one place it is."""
    runs: int = 0
    left: float | None = None
    """The time since which it has no pods; None: it has some."""
    pod: str = ""
    """The uid of its pod, if pods of its owner are interchangeable."""
    owned: bool = True
    """Whether an owner may create its pods again."""


class Identities:
    """All tasks that have pods or may get some again, by name."""

    def __init__(self) -> None:
        self.past: dict[str, Past] = {}
        self.over: list[str] = []
        """Names of tasks that ended without finishing, until the record has them."""
        self._by_place: dict[str, str] = {}
        """Place -> the name of its newest task."""
        self._by_pod: dict[str, str] = {}
        """Uid of an interchangeable pod -> the name of its task."""
        self._vacant: dict[str, list[str]] = {}
        """Place of interchangeable pods -> tasks without a pod, the oldest first."""

    def name_of(
        self, gang: GroupName | None, slot: str, pod: PodView, submitted: float, is_taken: Callable[[str], bool]
    ) -> str:
        """Returns the name of the task that a pod waits for, a new one if it continues none.

        `is_taken`: whether other pods run under a name.
        """
        place = place_of(gang, slot, pod)
        name: str | None
        if place.startswith(MANY):
            name = self._by_pod.get(pod.uid)
            if name is None and (vacant := self._vacant.get(place)):
                name = vacant[0]
        else:
            name = self._by_place.get(place)
            name = None if name is not None and is_taken(name) else name
        if name is None:
            name = self._new(place, _base(gang, slot, pod), submitted, owned=pod.owner is not None)
        past = self._occupy(name)
        if place.startswith(MANY):
            past.pod, self._by_pod[pod.uid] = pod.uid, name
        return name

    def _new(self, place: str, base: str, submitted: float, *, owned: bool) -> str:
        name, number = base, 1
        if place.startswith(MANY):
            newest = self._by_place.get(place)
            number = self.past[newest].number + 1 if newest is not None else 0
            while (name := f"{base}/{number}" if number else base) in self.past:
                number += 1
        elif name in self.past and self.past[name].left is not None:
            self._cancel(name)  # its pods were deleted, and others have their names
        while name in self.past:
            number += 1
            name = f"{base}#{number}"  # `~` is how the event log numbers tasks of one name
        self.past[name] = Past(submitted, place, number, owned=owned)
        self._by_place[place] = name
        return name

    def adopt(self, name: str, place: str, submitted: float, runs: int, *, owned: bool) -> None:
        """Note that pods are bound for this task."""
        past = self.past.setdefault(name, Past(submitted, place, owned=owned))
        self._by_place.setdefault(past.place, name)
        self._occupy(name)
        past.runs, past.submitted = max(past.runs, runs), min(past.submitted, submitted)

    def began(self, name: str, run: int) -> None:
        """Note that a run has begun."""
        past = self._occupy(name)
        past.runs = max(past.runs, run)

    def _occupy(self, name: str) -> Past:
        """Note that a task has pods, so that no other pod continues it."""
        past = self.past[name]
        past.left = None
        vacant = self._vacant.get(past.place, [])
        if name in vacant:
            vacant.remove(name)
            if not vacant:
                del self._vacant[past.place]
        return past

    def vacate(self, name: str, now: float) -> None:
        """Note that a task has no pods. It is over unless it has run and an owner may create pods again."""
        past = self.past.get(name)
        if past is None or past.left is not None:
            return
        if not past.owned or not past.runs:
            self._cancel(name)
            return
        self._by_pod.pop(past.pod, None)
        past.pod, past.left = "", now
        if past.place.startswith(MANY):
            self._vacant.setdefault(past.place, []).append(name)

    def renew(self, name: str, submitted: float) -> None:
        """Begin another task under the name of one that has finished."""
        past = self.past[name]
        past.submitted, past.runs = submitted, 0

    def drop(self, name: str) -> None:
        """Forget a task that has finished."""
        past = self._occupy(name)
        del self.past[name]
        self._by_pod.pop(past.pod, None)
        if self._by_place.get(past.place) == name:
            del self._by_place[past.place]

    def _cancel(self, name: str) -> None:
        """End a task that gets no more pods."""
        self.drop(name)
        self.over.append(name)

    def expire(self, now: float) -> None:
        """Forget tasks that have had no pods for long."""
        for name in [name for name, past in self.past.items() if past.left is not None and now - past.left > FORGET]:
            self._cancel(name)

    # -- saving ------------------------------------------------------------------------------------

    def save(self) -> Any:
        """Returns the names to save, as plain values."""
        return {name: msgspec.to_builtins(past) for name, past in self.past.items()}

    def load(self, saved: Any) -> None:
        """Load saved names. Raises `msgspec.ValidationError` if they are malformed."""
        for name, past in sorted(msgspec.convert(saved, dict[str, Past]).items()):
            self.past[name] = past
            self._by_place[past.place] = name
            if past.pod:
                self._by_pod[past.pod] = name
            if past.left is not None and past.place.startswith(MANY):
                self._vacant.setdefault(past.place, []).append(name)
        for vacant in self._vacant.values():
            vacant.sort(key=lambda name: (self.past[name].left or 0.0, name))


def place_of(gang: GroupName | None, slot: str, pod: PodView) -> str:
    """Returns which pods continue the task of this one, as a text."""
    owner = pod.owner.uid if pod.owner is not None else ""
    if gang is not None:
        return f"gang {gang.kind} {gang.namespace}/{gang.name} {owner if slot == CORE else slot}"
    if pod.owner is None:
        return f"pod {pod.uid}"
    # A pod can name any uid as that of its owner: the uid counts within the namespace only.
    return f"slot {pod.slot} of {pod.namespace} {owner}" if pod.slot else f"{MANY}{pod.namespace} {owner}"


def _base(gang: GroupName | None, slot: str, pod: PodView) -> str:
    """Returns the name that a new task gets if no other has it."""
    if gang is not None:
        return f"{gang.namespace}/{gang.name}" if slot == CORE else f"{gang.namespace}/{gang.name}/{pod.name}"
    if pod.owner is None:
        return pod.path
    owner = f"{pod.namespace}/{pod.owner.name}"
    return f"{owner}/{pod.slot}" if pod.slot else owner
