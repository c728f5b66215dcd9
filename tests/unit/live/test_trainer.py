"""Models are trained in other processes, which may fail or be killed: the next fit is not hurt by that."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from gfs.core.events import Trained
from gfs.core.ports import FitRequest
from gfs.live.learning import Trainer
from waiting import wait_until


def test_a_fit_whose_process_is_killed_fails_and_the_next_one_comes() -> None:
    told: list[Trained] = []
    trainer = Trainer(told.append)
    fits: list[Callable[[], Any]] = [partial(os._exit, 1), partial(int, "no number"), partial(sum, (2, 3))]
    for count, fit in enumerate(fits):
        trainer.train(FitRequest("A100", fit, 100.0 + count))
        wait_until(lambda: len(told) + trainer.failures == trainer.asked)
    assert (trainer.asked, trainer.fits, trainer.failures) == (3, 1, 2)
    assert [(event.model, event.asked_at) for event in told] == [(5, 102.0)]
    assert trainer.last_fit == 102.0
