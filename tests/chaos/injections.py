"""What was done to the cluster and when: one line each, beside the recorded watch, and a count over the whole suite."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

SEEDS = [int(seed) for seed in os.environ.get("GFS_CHAOS_SEED", "1,2,3").split(",")]
"""One storm each; other seeds give other faults at other moments. A test that fails prints its own."""
TOTAL: Counter[str] = Counter()
"""Injections of the whole session by fault."""


class Injections:
    """Notes every fault at the moment it strikes."""

    def __init__(self, file: Path, seed: int) -> None:
        self.seed, self.file = seed, file
        self.count: Counter[str] = Counter()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._out = file.open("w", encoding="utf-8")

    def note(self, fault: str, where: str = "") -> None:
        """A fault strikes now."""
        with self._lock:
            self.count[fault] += 1
            TOTAL[fault] += 1
            second = round(time.monotonic() - self._began, 3)
            line = {"seed": self.seed, "second": second, "at": round(time.time(), 3), "fault": fault, "where": where}
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()

    def close(self) -> None:
        self._out.close()

    def __str__(self) -> str:
        told = ", ".join(f"{fault} {count}" for fault, count in sorted(self.count.items()))
        return f"seed {self.seed}: {sum(self.count.values())} injections ({told}), see {self.file}"
