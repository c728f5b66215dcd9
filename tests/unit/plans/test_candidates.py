"""What is tried: the grid, what is near the best, what was given."""

from __future__ import annotations

import pytest

from gfs.domain.errors import InputError
from gfs.plans.candidates import (
    CLOSE,
    PAPER,
    PROBABILITIES,
    SHARES,
    TIGHT,
    Candidate,
    halfway,
    search_space,
)

ALL = search_space(("gfs-plus", "gfs", "static"), {}, quick=False)


class TestGrid:
    def test_every_scheduler_with_a_fine_grid_of_shares_and_its_own_quotas(self) -> None:
        grid = ALL.grid(0.0)
        assert len(grid) == len(set(grid)) == 3 * len(SHARES) + 2 + 3 * len(PROBABILITIES)
        quotas = {name: {c.quota for c in grid if c.scheduler == name} for name in ALL.schedulers}
        assert quotas == {
            "gfs-plus": {"none", "fixed", "adaptive"},
            "gfs": {"none", "fixed", "forecast", "forecast-no-feedback"},
            "static": {"fixed"},
        }

    def test_no_share_below_the_largest_task(self) -> None:
        shares = {c.quota_share for c in ALL.grid(0.13) if c.quota == "fixed"}
        assert min(share for share in shares if share) == 0.13
        assert 0.15 in shares

    def test_others_by_name_have_shares_and_none(self) -> None:
        grid = search_space(("lyra",), {}, quick=True).grid(0.0)
        assert [c.label for c in grid] == [
            "lyra, no quota",
            "lyra, fixed 10%",
            "lyra, fixed 20%",
            "lyra, fixed 30%",
            "lyra, fixed 50%",
        ]

    def test_what_was_given_stays(self) -> None:
        given = {"quota": "forecast", "p": 0.9, "eta_max": 2.0, "theta": 60.0}
        (only,) = search_space(("gfs",), given, quick=False).grid(0.0)
        assert dict(only.values()) == {"quota": "forecast", "p": 0.9, "eta_min": 0.1, "eta_max": 2.0}
        assert search_space(("gfs",), given, quick=False).near(only, [only], 0.0) == []

    def test_leases_have_no_evictions_to_plan_by(self) -> None:
        with pytest.raises(InputError, match="chronus runs tasks by leases"):
            search_space(("gfs", "chronus"), {}, quick=False)


class TestNear:
    def test_halfway_to_the_next_on_either_side(self) -> None:
        assert halfway(0.2, [0.1, 0.2, 0.3], 0.01, 0.0, 1.0) == [0.15, 0.25]
        assert halfway(0.2, [0.1, 0.2, 0.21], 0.01, 0.0, 1.0) == [0.15]
        assert halfway(0.1, [0.1, 0.2], 0.01, 0.08, 1.0) == [0.09, 0.15]
        assert halfway(0.13, [0.13, 0.14], 0.01, 0.13, 1.0) == []

    def test_shares_and_probabilities(self) -> None:
        tried = [Candidate("gfs", "fixed", quota_share=share) for share in (0.1, 0.2, 0.3)]
        assert ALL.near(tried[1], tried, 0.05) == [
            Candidate("gfs", "fixed", quota_share=0.15),
            Candidate("gfs", "fixed", quota_share=0.25),
        ]
        adaptive = [Candidate("gfs-plus", "adaptive", p=p) for p in (0.9, 0.95)]
        assert [c.p for c in ALL.near(adaptive[1], adaptive, 0.0)] == [0.92, 0.97]

    def test_bounds_of_eta_where_there_is_feedback(self) -> None:
        best = Candidate("gfs", "forecast", p=0.9, eta=PAPER)
        found = ALL.near(best, [best, Candidate("gfs", "forecast", p=0.9, eta=TIGHT)], 0.0)
        assert [c.eta for c in found if c.p == 0.9] == [CLOSE]

    def test_no_quota_has_no_neighbours(self) -> None:
        assert ALL.near(Candidate("gfs", "none"), [], 0.0) == []


def test_how_they_read() -> None:
    assert Candidate("gfs-plus", "fixed", quota_share=0.125).label == "gfs-plus, fixed 12.5%"
    assert Candidate("gfs", "forecast", p=0.9, eta=PAPER).label == "gfs, forecast p = 0.9"
    assert Candidate("gfs", "forecast", p=0.9, eta=TIGHT).quota_label == "forecast p = 0.9, eta 0.5 to 1.5"
    assert Candidate("lyra", "none").sentence == "lyra without a quota"
    assert Candidate("gfs-plus", "fixed", quota_share=0.2).sentence == "gfs-plus with a fixed quota of 20%"
    assert Candidate("gfs-plus", "adaptive", p=0.95).sentence == "gfs-plus with the quota adaptive p = 0.95"
