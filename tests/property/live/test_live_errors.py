"""An error in the midst of a look at a task, wherever it is: it stops no decision, does no harm, and the next resync
makes up for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from books import check_books, check_liveness
from history import SETTINGS, Happening, World, histories, run
from hypothesis import given, settings
from hypothesis import strategies as st
from test_live_histories import EXAMPLES, PHASES, empty, end

from gfs.core.invariants import check_state
from gfs.live.identity import Identities
from gfs.live.tasks import TaskBook

PARTS = (
    *((TaskBook, name) for name in ("_named", "_placed", "_compare", "_note_members", "_core_task", "_note_waits")),
    *((TaskBook, name) for name in ("_adopt", "_begin", "_shrink", "_end", "_forget")),
    *((Identities, name) for name in ("name_of", "adopt", "began", "vacate", "drop", "renew")),
)
"""What a look consists of."""


class Errors:
    """Raises an error when one of the next parts of a look begins or ends."""

    def __init__(self) -> None:
        self.due = 0
        """How many parts begin or end before the error; 0: there is none."""
        self._is_looking = False

    def look(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def looks(*args: Any) -> None:
            self._is_looking = True
            try:
                real(*args)
            finally:
                self._is_looking = False

        return looks

    def part(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def takes_part(*args: Any, **more: Any) -> Any:
            self._pass()
            answer = real(*args, **more)
            self._pass()
            return answer

        return takes_part

    def _pass(self) -> None:
        if self._is_looking and self.due:
            self.due -= 1
            if not self.due:
                raise ZeroDivisionError


@contextmanager
def errors() -> Iterator[Errors]:
    found, log = Errors(), logging.getLogger("gfs.live")
    level = log.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskBook, "reconcile", found.look(TaskBook.reconcile))
        for owner, name in PARTS:
            patch.setattr(owner, name, found.part(getattr(owner, name)))
        log.setLevel(logging.CRITICAL)
        yield found
    log.setLevel(level)


@settings(max_examples=max(1, EXAMPLES // 5), phases=PHASES)
@given(histories(faults=False), st.lists(st.integers(1, 60), min_size=30, max_size=30))
def test_an_error_in_the_midst_of_a_look_is_made_up_for(history: list[Happening], when: list[int]) -> None:
    async def story() -> None:
        world = World()
        world.begin()
        for happening, due in zip(history, when, strict=False):
            await world.happen(happening)
            found.due = due
            await world.rest()
            found.due = 0
            assert not world.server.wrong, world.server.wrong
            for pool in world.replica.controller.scheduler.pools.values():
                check_state(pool.state)
        world.server.hand.at += SETTINGS.resync_interval + 1
        await end(world)
        check_books(world.replica)
        check_liveness(world)
        await empty(world)
        await world.close()

    with errors() as found:
        run(story)
