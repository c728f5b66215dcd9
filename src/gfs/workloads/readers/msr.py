"""The Microsoft trace published with ElasticFlow: ten clusters, no priorities, no nodes, no tenants.

What the format leaves out is made up by a fixed rule:

* organization: the cluster (the name of the file);
* class: Spot with probability `spot_share`, decided by a hash of (seed, cluster, job id), so it depends
  neither on the order of the rows nor on other jobs; the rest is HP;
* GPU model: one for all, `MSR`; the clusters are merged to one pool;
* pods: up to 8 GPUs are one pod; more are pods of 8 GPUs, the number rounded up (20 GPUs are 3 pods of 8);
* nodes: of 8 cards, as many as make mean demand / capacity equal `load` (rounded up), where mean demand
  is all GPU-seconds / (last submission - first submission); at least as many as the largest gang has pods.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.tables import read_table

GPU_MODEL = "MSR"
CARDS_A_NODE = 8
MSR_COLUMNS = ("submission_time", "duration", "num_gpu")

_Job = tuple[float, str, str, int, float]
"""(submission, name, cluster, GPUs, duration)"""


def read_msr(path: Path | str, *, seed: int = 0, spot_share: float = 0.2, load: float = 0.7) -> Workload:
    """Read a folder of `cluster*.csv`, one such file, or the merged table with `job_idx, cluster`."""
    if not 0 <= spot_share <= 1:
        raise InputError(f"spot_share must be between 0 and 1, not {spot_share:g}.")
    if not (math.isfinite(load) and load > 0):
        raise InputError(f"load must be above 0, not {load:g}.")
    jobs: list[_Job] = []
    bad: list[BadRow] = []
    for file in _files(Path(path)):
        read, wrong = _read_file(file)
        jobs += read
        bad += wrong
    if bad:
        raise BadRows(bad)
    if not jobs:
        raise InputError(f"{path}: there is no job in it.")
    jobs.sort(key=lambda job: job[:2])
    tasks = tuple(
        Task(
            index,
            name,
            cluster,
            GPU_MODEL,
            Priority.SPOT if _chance(seed, name) < spot_share else Priority.HP,
            *_pods(gpus),
            submit,
        )
        for index, (submit, name, cluster, gpus, _) in enumerate(jobs)
    )
    durations = tuple(job[4] for job in jobs)
    return Workload(tasks, _nodes(tasks, durations, load), "msr", durations)


def _files(path: Path) -> list[Path]:
    """The tables to read: those of a folder (or of its `raw` folder), or the one file."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("cluster*.csv")) or sorted(path.glob("raw/cluster*.csv"))
    if not files:
        raise InputError(f"{path}: there is no file cluster*.csv in this directory.")
    return files


def _read_file(path: Path) -> tuple[list[_Job], tuple[BadRow, ...]]:
    """The jobs of one table. Names are `cluster/job_id`, or `cluster/job_idx` in the merged table."""
    table = read_table(path, MSR_COLUMNS, ("job_id", "job_idx", "cluster"))
    key = "job_id" if "job_id" in table.columns else "job_idx"
    if key not in table.columns:
        raise InputError(f"{path}: column job_id missing. The columns are job_id, {', '.join(MSR_COLUMNS)}.")
    checks = Checks(table)
    ids = checks.text(key)
    clusters = checks.text("cluster") if "cluster" in table.columns else [_stem(path)] * len(table)
    submit, duration, gpus = (checks.number(name) for name in MSR_COLUMNS)
    checks.reject("submission_time", submit < 0, "must not be negative")
    checks.reject("duration", duration < 0, "must not be negative")
    checks.reject("num_gpu", (gpus < 1) | (gpus != np.floor(gpus)), "must be a whole number of 1 or more")
    names = [f"{cluster}/{job}" for cluster, job in zip(clusters, ids, strict=True)]
    checks.reject_duplicates(key, names)
    columns = (submit.tolist(), names, clusters, [int(count) for count in gpus], duration.tolist())
    return list(zip(*columns, strict=True)), checks.bad_rows()


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _chance(seed: int, name: str) -> float:
    """A number in [0, 1) that only the seed and the job decide. `name` holds the cluster and the job id."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _pods(gpus: int) -> tuple[int, float]:
    """(pods, GPUs a pod) for a job of `gpus` GPUs."""
    return (1, float(gpus)) if gpus <= CARDS_A_NODE else (-(-gpus // CARDS_A_NODE), float(CARDS_A_NODE))


def _nodes(tasks: tuple[Task, ...], durations: tuple[float, ...], load: float) -> tuple[NodeSpec, ...]:
    """As many nodes as the load asks for."""
    asked = sum(task.gpus * duration for task, duration in zip(tasks, durations, strict=True))
    span = tasks[-1].submit_time - tasks[0].submit_time or max(durations) or 1.0
    count = max(math.ceil(asked / span / load / CARDS_A_NODE), max(task.pods for task in tasks))
    return tuple(NodeSpec(i, f"n{i}", GPU_MODEL, CARDS_A_NODE) for i in range(count))
