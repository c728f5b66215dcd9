"""The largest values that input may have, all in one place. Beyond them a run would not end, or not mean anything."""

from __future__ import annotations

from typing import Final

MOST_SECONDS: Final = 1e11
"""Of any time or length of time: 3,170 years. Seconds since 1970 stay below it, milliseconds do not."""
MOST_GPUS_A_NODE: Final = 256
"""More than three of the largest racks sold as one machine (72 GPUs); the time for a decision grows with its square."""
MOST_GPUS: Final = 1e9
"""Demand of one organization, and GPUs of one job."""
MOST_CPUS: Final = 1e9
MOST_AMOUNT: Final = 1e15
"""GiB of memory, and of any other resource: some are counted in bytes."""
MOST_PODS: Final = 100_000
"""Of a role without GPUs, which nothing else need limit."""
MOST_NODES: Final = 1_000_000
"""Of a cluster that is sized for a trace."""
MOST_TICKS: Final = 2_000_000
"""Ticks of one run in which anything runs or waits: 19 years at the usual 300 seconds, hours of computing."""
MOST_IDLE: Final = 14 * 86_400.0
"""Seconds of ticks with nothing running or waiting; the rest of an idle time is passed over in one step."""
MOST_UNPACKED: Final = 8 * 2**30
"""Bytes of a gzipped file: a hundred million jobs. A few megabytes can be made to unpack to far more."""
