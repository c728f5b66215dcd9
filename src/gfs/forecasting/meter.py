"""Demand as a deployment sees it: HP GPUs running or queued now, and what they were, hour by hour.

Nothing is known here but what has happened. Demand is kept as the maximum of every five minutes, so that the hours
of a history can end now, whatever the minute: the next hour to forecast is the one that begins now.

What is wanted now follows from the tasks that run or wait, and is counted again whenever a meter is built. Only the
past (`DemandRecord`) has to be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import inf

import numpy as np

from gfs.core.listeners import Listener
from gfs.core.run import End, Run
from gfs.domain.task import Task
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.forecasting.history import DemandHistory, Floats, Ints, SeriesKey

STEP = 300.0
"""Seconds that one maximum is of."""
STEPS = round(HOUR / STEP)
SLACK = round(7 * DAY / STEP)
"""Steps too many that are kept before old ones are dropped: once a week is often enough."""


@dataclass(slots=True, eq=False)
class DemandRecord:
    """Demand until now, by organization: what a meter remembers."""

    rows: dict[str, int] = field(default_factory=dict)
    """Organization -> its row, in order of their first HP task."""
    peak: list[int] = field(default_factory=list)
    """Row -> the most micro-GPUs wanted in the current step."""
    since: list[int] = field(default_factory=list)
    """Row -> the organization's first step."""
    origin: int | None = None
    """Number of the first step; the step that goes on is `origin + steps`."""
    steps: int = 0
    recent: Floats = field(default_factory=lambda: np.zeros((0, STEPS)))
    """Rows x the last steps, in turns."""
    hourly: Floats = field(default_factory=lambda: np.zeros((0, STEPS, 384)))
    """Rows x steps of an hour x hours: the maximum of the hour that ends with the step. So the hours of a history lie
    side by side, whatever the minute."""

    def add(self, organization: str) -> int:
        """A row for an organization whose demand begins now."""
        row = self.rows[organization] = len(self.rows)
        self.peak.append(0)
        self.since.append(self.steps)
        if row >= len(self.hourly):
            more = max(row // 4, 8)
            self.recent = np.concatenate([self.recent, np.zeros((more, STEPS))])
            self.hourly = np.concatenate([self.hourly, np.zeros((more, *self.hourly.shape[1:]))])
        return row

    def make_room(self, steps: int, most: int) -> None:
        """Room for so many steps, and for more to come: twice as many, up to `most`."""
        hours = self.hourly.shape[2]
        if steps > hours * STEPS:
            grown = np.zeros((len(self.hourly), STEPS, -(-max(min(2 * steps, most), steps) // STEPS)))
            grown[:, :, :hours] = self.hourly
            self.hourly = grown

    def prepend(self, demand: Mapping[str, Floats], end: int) -> None:
        """Learn what was wanted before the record begins: GPUs by organization, in whole hours of steps up to `end`.

        Between then and the record's own first step demand stays as it was.
        """
        origin = end if self.origin is None else self.origin
        known = {
            name: np.concatenate([gpus, np.repeat(gpus[-1:], max(origin - end, 0))]) for name, gpus in demand.items()
        }
        size = min((len(gpus) for gpus in known.values()), default=0) // STEPS * STEPS
        if not size or end > origin:
            return
        self.origin, self.since = origin - size, [since + size for since in self.since]
        self.steps += size
        self.hourly = np.pad(self.hourly, ((0, 0), (0, 0), (size // STEPS, 0)))
        later = np.arange(STEPS) >= self.steps - size  # places of the last hour in which nothing was measured yet
        for name, gpus in known.items():
            row = self.rows[name] if name in self.rows else self.add(name)
            steps = np.concatenate([np.zeros(STEPS - 1), gpus[-size:], np.zeros(STEPS - 1)])
            peaks = np.lib.stride_tricks.sliding_window_view(steps, STEPS).max(axis=1)
            hours, places = np.divmod(np.arange(min(len(peaks), self.steps)), STEPS)
            here = self.hourly[row]
            here[places, hours] = np.maximum(here[places, hours], peaks[: len(hours)])
            wanted = np.flatnonzero(gpus[-size:])
            self.since[row] = min(self.since[row], int(wanted[0]) if len(wanted) else self.steps)
            self.recent[row, later] = gpus[-STEPS:][later] * MICRO

    def drop_before(self, gone: int) -> None:
        """Forget the first steps, whole hours."""
        assert self.origin is not None
        self.hourly = self.hourly[:, :, gone // STEPS : (self.steps + SLACK) // STEPS + 1].copy()
        self.origin += gone
        self.steps -= gone
        self.since = [since - gone for since in self.since]

    def keep_rows(self, kept: list[int]) -> None:
        """Forget all rows but these; they are renumbered in the same order."""
        names = list(self.rows)
        self.rows = {names[row]: i for i, row in enumerate(kept)}
        self.peak = [self.peak[row] for row in kept]
        self.since = [self.since[row] for row in kept]
        self.recent, self.hourly = self.recent[kept], self.hourly[kept]


class DemandMeter(Listener):
    """HP demand of one pool, by organization."""

    def __init__(
        self,
        gpu_model: str,
        first_day: date | None = None,
        days: float = 182.0,
        *,
        cluster: str = "",
        record: DemandRecord | None = None,
        tasks: Iterable[Task] = (),
    ) -> None:
        """`days`: how long demand is remembered. `record`: what is known of the past; `tasks`: who runs or waits."""
        self._gpu_model = gpu_model
        self._cluster = cluster
        self._keep = round(days * DAY / STEP)
        self._first_day = first_day
        self._record = record or DemandRecord()
        self._now = [0] * len(self._record.rows)
        """Row -> micro-GPUs that the organization's HP tasks hold or wait for."""
        self.keys = self._named()
        """The series, in order of their first HP task."""
        self._firsts: dict[int, tuple[Ints, int]] = {}
        """Steps that are left out of the first hour -> the column of each series' first record, and the latest."""
        self._since = self._record.since
        """What these were computed from: the list only grows, or another takes its place."""
        for task in tasks:
            if not task.is_spot:
                self._want(task)
        self._step_ends = -inf
        """When the step that goes on is over; not known before it is asked for."""

    # -- what happens ------------------------------------------------------------------------------

    def submitted(self, task: Task, now: float) -> None:
        """An HP task wants its GPUs from now on, until it has finished or is cancelled."""
        if not task.is_spot:
            if now >= self._step_ends:
                self._advance(now)
            self._want(task)

    def finished(self, run: Run, now: float) -> None:
        """A task that is done wants nothing any more."""
        if not run.task.is_spot:  # most are none: without a call for the others
            self.withdrawn(run.task, now)

    def ended(self, run: Run, end: End, now: float) -> None:
        """A task that waits again wants as much as before; one that is cancelled nothing."""
        if not end.waits_again:
            self.withdrawn(run.task, now)

    def shrunk(self, run: Run, before: Task, now: float) -> None:
        """A task that goes on with fewer pods wants less."""
        if not before.is_spot:
            self._advance(now)
            self._now[self._record.rows[before.organization]] -= before.micro - run.task.micro

    def withdrawn(self, task: Task, now: float) -> None:
        """A task wants nothing any more."""
        if not task.is_spot:
            if now >= self._step_ends:
                self._advance(now)
            self._now[self._record.rows[task.organization]] -= task.micro

    def _want(self, task: Task) -> None:
        """One task more."""
        record, now = self._record, self._now
        row = record.rows.get(task.organization)
        if row is None:
            row = record.add(task.organization)
            now.append(0)
            self.keys = self._named()
            self._firsts.clear()
        now[row] += task.micro
        if now[row] > record.peak[row]:
            record.peak[row] = now[row]

    # -- what is known -----------------------------------------------------------------------------

    def level(self) -> Floats:
        """GPUs wanted now, per organization."""
        return np.array(self._now) / MICRO

    def history(self, now: float) -> DemandHistory:
        """Hours that end with the last full step; the first one may have been seen only in part."""
        self._advance(now)
        return self.known()

    def known(self) -> DemandHistory:
        """The same, as of the last time that anything was heard or asked."""
        record = self._record
        if not record.steps:
            nothing, start = np.zeros((len(self.keys), 0)), int((record.origin or 0) * STEP // HOUR)
            return DemandHistory(self.keys, nothing, np.zeros(len(self.keys), np.int64), start)
        last = record.steps - 1
        offset = last % STEPS
        if last >= STEPS:  # a whole hour is known: leave out the part of one before it
            offset += STEPS if offset < STEPS - 1 else 0
        assert record.origin is not None
        end = int((record.origin + record.steps) * STEP // HOUR)
        columns = (last - offset) // STEPS + 1
        gpus = record.hourly[: len(self.keys), offset % STEPS, offset // STEPS : offset // STEPS + columns]
        return DemandHistory.trusted(self.keys, gpus, self._first(offset, columns), end - columns, self._first_day)

    def _first(self, offset: int, columns: int) -> Ints:
        """The column of each organization's first record; the same at this minute of every hour."""
        since = self._record.since
        if since is not self._since:
            self._since = since
            self._firsts.clear()
        known = self._firsts.get(offset)
        if known is None:
            first = np.maximum((np.array(since, np.int64) + (STEPS - 1 - offset)) // STEPS, 0)
            known = self._firsts[offset] = first, int(first.max(initial=0))
        first, latest = known
        return first if latest <= columns else np.minimum(first, columns)

    def _named(self) -> tuple[SeriesKey, ...]:
        return tuple(SeriesKey(organization, self._gpu_model, self._cluster) for organization in self._record.rows)

    # -- time passes -------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if now < self._step_ends:
            return
        record, step = self._record, int(now // STEP)
        if record.origin is None:
            record.origin = step
        self._step_ends = max((step + 1) * STEP, self._step_ends)
        ended = step - record.origin - record.steps
        if ended <= 0:
            return
        if ended > 2 * self._keep:  # all that was known will be forgotten: how long ago it was makes no difference
            passed = (ended - 2 * self._keep) // STEPS * STEPS
            record.origin += passed
            ended -= passed
        record.make_room(record.steps + ended, most=self._keep + SLACK + STEPS)
        rows = len(self.keys)
        for _ in range(min(ended, STEPS + 1)):
            record.recent[:rows, record.steps % STEPS] = record.peak
            record.peak = self._now.copy()
            hour, place = divmod(record.steps, STEPS)
            record.hourly[:rows, place, hour] = np.maximum.reduce(record.recent[:rows], axis=1) / MICRO
            record.steps += 1
        quiet = ended - STEPS - 1
        if quiet > 0:  # after an hour without any event all maxima are what is wanted now
            hours, places = np.divmod(record.steps + np.arange(quiet), STEPS)
            record.hourly[:rows, places, hours] = self.level()[:, None]
            record.steps += quiet
        if record.steps > self._keep + SLACK:
            self._drop_old()

    def _drop_old(self) -> None:
        """Forget what is older than is to be kept, by whole hours, and who has wanted nothing since."""
        record = self._record
        record.drop_before((record.steps - self._keep) // STEPS * STEPS)
        wanted = record.hourly.max(axis=(1, 2))
        kept = [row for row, now in enumerate(self._now) if now or record.peak[row] or wanted[row]]
        if len(kept) < len(self.keys):
            record.keep_rows(kept)
            self._now = [self._now[row] for row in kept]
            self.keys = self._named()
