"""The controller's time: that of the API server when it began, and then as fast as it is told to run."""

from __future__ import annotations

import pytest

from gfs.live.clock import Clock


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    monkeypatch.setattr("time.time", lambda: 5.0)  # this machine believes it is 1970
    return at


def test_it_begins_with_the_time_of_the_api_server(ticks: list[float]) -> None:
    clock = Clock(wall=lambda: 1_000_000.0)
    assert clock.now() == 1_000_000.0
    ticks[0] += 7.5
    assert clock.now() == 1_000_007.5


def test_times_that_the_api_server_wrote_down_are_on_the_same_clock(ticks: list[float]) -> None:
    clock = Clock(wall=lambda: 1_000_000.0)
    ticks[0] += 60.0
    assert clock.of_wall(1_000_020.0) == 1_000_020.0
    assert clock.of_wall(999_000.0) == 999_000.0
    assert clock.of_wall(1_000_090.0) == 1_000_060.0, "nothing has happened in the future"


def test_a_faster_clock_counts_faster_from_its_beginning(ticks: list[float]) -> None:
    """60 times as fast: 10 s later ten minutes have passed, and what was written 5 s ago was five minutes ago."""
    clock = Clock(60.0, lambda: 1_000_000.0)
    ticks[0] += 10.0
    assert clock.now() == 1_000_600.0
    assert clock.of_wall(1_000_005.0) == 1_000_300.0
    assert clock.until(1_000_900.0) == 5.0
    assert clock.until(1_000_000.0) == 0.0


def test_a_clock_that_is_set_while_it_runs_changes_nothing(ticks: list[float]) -> None:
    wall = [1_000_000.0]
    clock = Clock(wall=lambda: wall[0])
    wall[0] -= 3600.0
    ticks[0] += 1.0
    assert clock.now() == 1_000_001.0
