"""Demand as a deployment sees it: HP GPUs running or queued now, and what they were, hour by hour.

Nothing is known here but what has happened. Demand is kept as the maximum of every five minutes, so that the hours
of a history can end now, whatever the minute: the next hour to forecast is the one that begins now.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from gfs.core.listeners import Listener
from gfs.core.run import End, Run
from gfs.domain.task import Task
from gfs.domain.units import DAY, HOUR, MICRO
from gfs.forecasting.history import DemandHistory, Floats, SeriesKey

STEP = 300.0
"""Seconds that one maximum is of."""
STEPS = round(HOUR / STEP)
SLACK = round(7 * DAY / STEP)
"""Steps too many that are kept before old ones are dropped: once a week is often enough."""


class DemandMeter(Listener):
    """HP demand of one pool, by organization."""

    def __init__(self, gpu_model: str, first_day: date | None = None, days: float = 182.0) -> None:
        """`days`: how long demand is remembered."""
        self._gpu_model = gpu_model
        self._keep = round(days * DAY / STEP)
        self._first_day = first_day
        self._rows: dict[str, int] = {}
        self.keys: tuple[SeriesKey, ...] = ()
        """The series, in order of their first HP task."""
        self._now: list[int] = []
        """Organization -> micro-cards that its HP tasks hold or wait for."""
        self._peak: list[int] = []
        """Organization -> the most of it in the step that goes on."""
        self._since: list[int] = []
        """Organization -> its first step."""
        self._origin: int | None = None
        """Number of the first step; the step that goes on is `_origin + _steps`."""
        self._steps = 0
        self._recent: Floats = np.zeros((0, STEPS))
        """Organization x the last steps, in turns."""
        self._hourly: Floats = np.zeros((0, 4096))
        """Organization x steps: the maximum of the hour that ends with the step."""

    # -- what happens ------------------------------------------------------------------------------

    def submitted(self, task: Task, now: float) -> None:
        """An HP task wants its GPUs from now on, until it has finished or is cancelled."""
        if task.is_spot:
            return
        self._advance(now)
        row = self._rows.get(task.organization)
        if row is None:
            row = self._add(task.organization)
        self._now[row] += task.micro
        if self._now[row] > self._peak[row]:
            self._peak[row] = self._now[row]

    def finished(self, run: Run, now: float) -> None:
        """A task that is done wants nothing any more."""
        self.withdrawn(run.task, now)

    def ended(self, run: Run, end: End, now: float) -> None:
        """A task that waits again wants as much as before; one that is cancelled nothing."""
        if not end.waits_again:
            self.withdrawn(run.task, now)

    def withdrawn(self, task: Task, now: float) -> None:
        """A task wants nothing any more."""
        if not task.is_spot:
            self._advance(now)
            self._now[self._rows[task.organization]] -= task.micro

    # -- what is known -----------------------------------------------------------------------------

    def level(self) -> Floats:
        """GPUs wanted now, per organization."""
        return np.array(self._now) / MICRO

    def history(self, now: float) -> DemandHistory:
        """Hours that end with the last full step; the first one may have been seen only in part."""
        self._advance(now)
        if not self._steps:
            return DemandHistory(
                self.keys, np.zeros((len(self.keys), 0)), np.zeros(len(self.keys), np.int64), int(now // HOUR)
            )
        last = self._steps - 1
        offset = last % STEPS
        if last >= STEPS:  # a whole hour is known: leave out the part of one before it
            offset += STEPS if offset < STEPS - 1 else 0
        assert self._origin is not None
        end = int((self._origin + self._steps) * STEP // HOUR)
        columns = (last - offset) // STEPS + 1
        first = [max((since - offset + STEPS - 1) // STEPS, 0) for since in self._since]
        return DemandHistory.trusted(
            self.keys,
            self._hourly[: len(self.keys), offset : last + 1 : STEPS],
            np.minimum(np.array(first, np.int64), columns),
            end - columns,
            self._first_day,
        )

    def _advance(self, now: float) -> None:
        step = int(now // STEP)
        if self._origin is None:
            self._origin = step
        ended = step - self._origin - self._steps
        if ended <= 0:
            return
        if self._steps + ended > self._hourly.shape[1]:
            most = self._keep + SLACK + STEPS
            grown = np.zeros((len(self._hourly), max(min(2 * (self._steps + ended), most), self._steps + ended)))
            grown[:, : self._steps] = self._hourly[:, : self._steps]
            self._hourly = grown
        rows = len(self.keys)
        for i in range(ended):
            if i <= STEPS:  # after an hour without any event all maxima are what is wanted now
                self._recent[:rows, self._steps % STEPS] = self._peak
                self._peak = self._now.copy()
                maxima = self._recent[:rows].max(axis=1) / MICRO
            self._hourly[:rows, self._steps] = maxima
            self._steps += 1
        if self._steps > self._keep + SLACK:
            self._drop_old()

    def _drop_old(self) -> None:
        """Forget what is older than is to be kept, by whole hours."""
        assert self._origin is not None
        gone = (self._steps - self._keep) // STEPS * STEPS
        self._hourly = self._hourly[:, gone : self._steps + SLACK + STEPS].copy()
        self._origin += gone
        self._steps -= gone
        self._since = [since - gone for since in self._since]

    def _add(self, organization: str) -> int:
        row = self._rows[organization] = len(self._rows)
        self.keys = (*self.keys, SeriesKey(organization, self._gpu_model))
        self._now.append(0)
        self._peak.append(0)
        self._since.append(self._steps)
        if row >= len(self._hourly):
            more = max(row, 8)
            self._recent = np.concatenate([self._recent, np.zeros((more, STEPS))])
            self._hourly = np.concatenate([self._hourly, np.zeros((more, self._hourly.shape[1]))])
        return row
