"""Loops without the collector of cyclic garbage."""

from __future__ import annotations

import gc
from contextlib import suppress

from gfs.gc_paused import gc_paused


def test_the_collector_rests_inside_and_works_again_afterwards() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_also_after_an_error() -> None:
    with suppress(ValueError), gc_paused():
        raise ValueError
    assert gc.isenabled()


def test_where_it_rested_before_it_goes_on_resting() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_made_inside_counts_as_old() -> None:
    with gc_paused():
        made = [[] for _ in range(50_000)]  # type: ignore[var-annotated]
    assert any(each is made for each in gc.get_objects(generation=2))
    assert not any(each is made for each in gc.get_objects(generation=0))
    assert gc.get_freeze_count() == 0
