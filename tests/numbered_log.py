"""A live event log with numbers for its GPUs, which the outside auditor expects."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path


def numbered(log: Path) -> Path:
    """Writes a copy of a live log beside it, in which each pod has the lowest free GPUs; returns its path.

    Where more GPUs are held than a node has, a pod gets numbers beyond them, which the auditor reports.
    """
    with log.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    held: dict[str, set[int]] = defaultdict(set)
    runs: dict[tuple[str, str, str], list[list[int]]] = defaultdict(list)
    for row in rows:
        assert row["cards"] == "", row
        node, pods = row["node"], runs[row["task"], row["run"], row["node"]]
        if row["event"] == "start":
            beyond = len(held[node]) + int(float(row["gpus"]))
            pods.append([gpu for gpu in range(beyond) if gpu not in held[node]][: int(float(row["gpus"]))])
            held[node].update(pods[-1])
            row["cards"] = "+".join(map(str, pods[-1]))
        elif node:
            row["cards"] = "+".join(map(str, pods[0]))
            held[node].difference_update(pods.pop(0))
    copy = log.with_name("numbered-events.csv")
    with copy.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["time"])
        writer.writeheader()
        writer.writerows(rows)
    return copy
