"""Pause Python's collector of cyclic garbage in long loops that make none: looking for it would only cost time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
