"""The suite as a whole did what it is for: enough faults, of every kind."""

import pytest
from daily import EVENTS
from injections import SEEDS, TOTAL
from proxy import BINDING, REQUESTS, WATCHES
from test_state import DAMAGE, STEPS

STRIKES = (
    "API server killed", "etcd paused", "leader killed", "leader paused", "node cordoned", "node deleted",
    "node shrunk", "waiting pod deleted", "running pod deleted", "namespace deleted", "killed at a failpoint",
)  # fmt: skip
LEAST = 500


def test_there_were_faults_of_every_kind() -> None:
    if any(kind not in TOTAL for kind in ("killed at a failpoint", "clock an hour back", "namespace deleted")):
        pytest.skip("only a part of the suite ran: make test-chaos")
    print(f"{TOTAL.total()} injections: {dict(TOTAL.most_common())}")
    wanted = {*REQUESTS, *WATCHES, BINDING, *STRIKES, *EVENTS, *DAMAGE, *STEPS}
    assert not wanted - TOTAL.keys()
    assert TOTAL.total() >= LEAST * len(SEEDS) / 3
