"""Python's collector of cyclic garbage, paused or calmed where next to none is made: looking for it only costs time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (50_000, 20, 20)
"""Objects made until the collector looks at them, and how often until it looks at older ones too; Python's own: 700."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Turn the collector off inside the block; on afterwards, if it was on before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # count what was made meanwhile as old: as young objects the collector
                gc.freeze()  # would go through all of them at once
                gc.unfreeze()
            gc.enable()


def collect_seldom() -> None:
    """For a process that reads objects all the time and keeps many: nearly none are cyclic, so looking is in vain."""
    gc.freeze()
    gc.set_threshold(*SELDOM)
