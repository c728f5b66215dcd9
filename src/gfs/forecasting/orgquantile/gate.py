"""How much each of two opinions is believed: that the last value stays, and what was learned.

Per organization and hour ahead, the shares follow from the losses (absolute errors in units of the features) that
the opinions had over the last weeks: share_i ~ exp(-sharpness * (loss_i - best) / (best + START)), the loss of
what was learned being raised by the handicap. Opinions equally good are averaged; where a series does not move,
the last value is all that is left. Losses are counted in whole parts of a unit, so that sums kept up by adding and
subtracting are exact and do not depend on the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gfs.forecasting.history import Floats, Ints

OPINIONS = 2
PARTS = 1 << 16
START = 12.0
"""Units of loss that every opinion is taken to have had already, so that a few hours decide little."""
LARGEST_LOSS = 1000.0


@dataclass(frozen=True, slots=True)
class Gate:
    """The rule that turns losses into shares."""

    sharpness: float = 60.0
    handicap: float = 0.02
    """How much better than the last value it must have been to be believed as much."""

    def shares(self, losses: Ints) -> Floats:
        """Shares of each opinion from the sums of its losses: opinions x ... -> the same shape, adding up to 1."""
        loss = losses / PARTS
        loss[1:] *= 1 + self.handicap
        best = loss.min(axis=0)
        belief = np.exp(-self.sharpness * (loss - best) / (best + START))
        shares: Floats = belief / belief.sum(axis=0)
        return shares


def counted(loss: Floats) -> Ints:
    """Losses in whole parts."""
    parts: Ints = np.rint(np.minimum(loss, LARGEST_LOSS) * PARTS).astype(np.int64)
    return parts
