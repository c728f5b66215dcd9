"""Which of the settings that were tried to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gfs.batch.job import JobResult
from gfs.domain.errors import InputError
from gfs.plans.runs import PlanRun
from gfs.plans.setting import Setting


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run and what came of it."""

    run: PlanRun
    setting: Setting
    figures: JobResult
    """Empty if it failed."""
    error: str = ""
    """Why it failed."""

    @property
    def evicted(self) -> float:
        """Evictions / runs of spot tasks: the rate that `gfs simulate` prints, and the one the target is about."""
        return float(self.figures["spot_eviction_rate"])

    @property
    def wait(self) -> float:
        """Mean seconds that spot tasks waited in all."""
        return float(self.figures["spot_jqt_mean"])

    @property
    def has_spot(self) -> bool:
        """Whether any spot task ran: of little spot work a quarter is none, and a small cluster may fit none."""
        return bool(self.figures["spot_runs"])

    def keeps(self, target: float) -> bool:
        """Whether evictions stay within the target."""
        return not self.error and self.evicted <= target

    def sells(self, target: float, max_wait: float) -> bool:
        """Whether its spot work can be sold: there is some, within the target and the limit of the mean wait."""
        return self.keeps(target) and self.has_spot and self.wait <= max_wait


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting to use."""

    outcome: Outcome
    missed_by: float
    """By how much evictions exceed the target; 0 if they do not."""
    alike: bool
    """Every setting came to the same waits and evictions."""

    @property
    def meets(self) -> bool:
        """Whether the target is kept."""
        return self.missed_by == 0


def choose(outcomes: Sequence[Outcome], target: float) -> Choice:
    """Within the target the shortest mean spot wait; ties: fewer evictions, then the fixed order of settings.

    If none is within the target, the one with the fewest evictions; ties: the shorter wait, then the same order.
    """
    done = [outcome for outcome in outcomes if not outcome.error]
    if not done:
        raise InputError(f"no setting could be simulated: {outcomes[0].error}")
    alike = len({(outcome.wait, outcome.evicted) for outcome in done}) == 1
    within = [outcome for outcome in done if outcome.keeps(target)]
    if within:
        return Choice(min(within, key=lambda o: (o.wait, o.evicted, o.setting.rank)), 0.0, alike)
    nearest = min(done, key=lambda o: (o.evicted, o.wait, o.setting.rank))
    return Choice(nearest, nearest.evicted - target, alike)


def best_by_guarantee(outcomes: Sequence[Outcome], target: float) -> list[Choice]:
    """The best setting for each length of the guarantee, the shortest first."""
    hours = sorted({outcome.setting.hours or 0.0 for outcome in outcomes if not outcome.error})
    return [choose([o for o in outcomes if (o.setting.hours or 0.0) == h], target) for h in hours]
