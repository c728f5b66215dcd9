"""Long loops that throw away nothing cyclic: looking for such garbage would only cost time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's collector of cyclic garbage rests meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if not gc.get_freeze_count():  # what was made meanwhile counts as old, not as young: the collector
                gc.freeze()  # would go through all of it at once
                gc.unfreeze()
            gc.enable()
