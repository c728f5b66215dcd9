"""Training in another process: no decision waits for it."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from gfs.core.events import Trained
from gfs.core.ports import FitRequest

log = logging.getLogger("gfs.live")


class Trainer:
    """Runs fits one at a time elsewhere and hands the models back as events."""

    def __init__(self, done: Callable[[Trained], None]) -> None:
        """`done` is called from another thread."""
        self._done = done
        self._pool: ProcessPoolExecutor | None = None
        self.asked = self.fits = self.failures = 0
        self.last_fit = 0.0
        """When the newest model was asked for; 0: there is none."""

    def train(self, request: FitRequest) -> None:
        """Begin a fit; the model comes later."""
        self.asked += 1
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

        def hand_back(future: Future[Any]) -> None:
            if future.cancelled() or self._pool is None:
                return
            error = future.exception()
            if error is not None:
                self.failures += 1
                log.warning(f"a fit for pool {request.gpu_model} failed, the earlier model stays: {error}")
                return
            self.fits += 1
            self.last_fit = max(self.last_fit, request.asked_at)
            self._done(Trained(request.gpu_model, future.result(), request.asked_at))

        self._pool.submit(request.fit).add_done_callback(hand_back)

    @property
    def under_way(self) -> int:
        """Fits that were asked for and have not come."""
        return self.asked - self.fits - self.failures

    def close(self) -> None:
        """Stop the other process."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.shutdown(wait=False, cancel_futures=True)
