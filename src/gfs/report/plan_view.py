"""What is shown of a plan, on the terminal and on a page alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gfs.report.columns import NOTHING, amount, percent, short_seconds


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A run."""

    name: str
    """What is special about it: 'p = 0.9, guarantee 1 h, eta 0.1 to 4'."""
    figures: Mapping[str, Any]
    """Empty if it failed."""
    keeps: bool
    """Within the target."""
    cells: tuple[str, ...] = ()
    """The name in parts: p, H, eta."""
    recommended: bool = False
    remark: str = ""
    """Why it failed, or what has to be known of it."""

    @property
    def evicted(self) -> float:
        """Share of the spot runs."""
        return float(self.figures["spot_eviction_rate"])

    @property
    def wait(self) -> float:
        """Mean seconds of spot tasks."""
        return float(self.figures["spot_jqt_mean"])


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan, ready to be shown."""

    about: str
    """Trace, scheduler and seed in a line."""
    answer: str
    target: float
    max_wait: float
    meets: bool
    settings: Sequence[PlanRow]
    """The best first: those within the target by their wait, then the others by their evictions."""
    today: Sequence[PlanRow]
    """The recommended setting, then what operators have."""
    nodes: Sequence[PlanRow]
    demand: Sequence[PlanRow]
    """`keeps` also says that the wait is short enough."""
    guarantees: Sequence[PlanRow]
    prices: str
    config: str

    @property
    def recommended(self) -> PlanRow:
        """The setting to use."""
        return next(row for row in self.settings if row.recommended)


def money(dollars: float) -> str:
    """Whole dollars."""
    return f"${dollars:,.0f}"


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A figure of a run."""

    title: str
    key: str
    text: Callable[[float], str]
    help: str

    def cell(self, row: PlanRow) -> str:
        """The figure as text."""
        value = row.figures.get(self.key)
        return NOTHING if value is None else self.text(value)


WAIT: Final = PlanColumn("spot wait mean", "spot_jqt_mean", short_seconds, "All waits of a spot task")
WAIT_99: Final = PlanColumn("spot wait p99", "spot_jqt_p99", short_seconds, "99% of spot tasks waited less")
EVICTED: Final = PlanColumn(
    "evicted of runs", "spot_eviction_rate", percent, "Evictions / spot runs: the target's rate"
)
BROKEN: Final = PlanColumn(
    "periods broken",
    "spot_evictions_per_guarantee_period",
    percent,
    "Evictions / (evictions + completed guarantee periods)",
)
KEPT: Final = PlanColumn(
    "promises kept", "spot_guarantee_hit_rate", percent, "Spot runs not evicted within their guaranteed hours"
)
WASTED: Final = PlanColumn("wasted GPU-h", "spot_wasted_gpu_hours", amount, "GPU-hours lost to evictions")
HP_WAIT: Final = PlanColumn("HP wait mean", "hp_jqt_mean", short_seconds, "Queuing time of HP tasks")
USED: Final = PlanColumn("cards in use", "allocation_rate", percent, "Cards allocated over time")
GPU_HOURS: Final = PlanColumn(
    "GPU-h a month", "spot_gpu_hours", amount, "Useful spot GPU-hours delivered while tasks were submitted"
)
GUARANTEED: Final = PlanColumn(
    "guaranteed GPU-h", "guaranteed_gpu_hours", amount, "GPU-hours a month of completed guarantee periods"
)
WORTH: Final = PlanColumn("worth a month", "worth", money, "Useful spot GPU-hours at the assumed prices")
LOST: Final = PlanColumn("wasted a month", "wasted_worth", money, "Wasted spot GPU-hours at the assumed prices")
NODES: Final = PlanColumn("nodes", "nodes", amount, "Nodes of the cluster")

SETTING_COLUMNS: Final = (EVICTED, WAIT, WAIT_99, BROKEN, KEPT, WASTED, HP_WAIT, USED)
"""Of every setting; a page has those below as well."""
OTHER_COLUMNS: Final = (EVICTED, WAIT, WAIT_99, KEPT, WASTED, HP_WAIT, USED, GPU_HOURS)
"""Of the recommended setting beside others."""
SOLD_COLUMNS: Final = (EVICTED, WAIT, KEPT, GPU_HOURS, GUARANTEED, WORTH)
"""Of what is sold."""
EVERY_COLUMN: Final = (*SETTING_COLUMNS, GPU_HOURS, GUARANTEED, WORTH, LOST)
