"""The Microsoft trace published with ElasticFlow: ten clusters, no priorities, no nodes, no tenants.

The repository publishes the files as `data/raw-traces.tar.gz`, which is read as it is.
What the format leaves out follows a fixed rule:

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
import tarfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_NODES, MOST_SECONDS
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.workloads.readers.checks import Checks
from gfs.workloads.readers.tables import Table, read_table, table_of_bytes

GPU_MODEL = "MSR"
CARDS_A_NODE = 8
MSR_COLUMNS = ("submission_time", "duration", "num_gpu")
OPTIONAL = ("job_id", "job_idx", "cluster")
ARCHIVE = "raw-traces.tar.gz"
PLACES = ("cluster*.csv", "raw/cluster*.csv", "data/cluster*.csv", ARCHIVE, f"data/{ARCHIVE}")
"""Where in a folder the tables are; the first place that has any counts."""

_Job = tuple[float, str, str, int, float]
"""(submission, name, cluster, GPUs, duration)"""


def read_msr(path: Path | str, *, seed: int = 0, spot_share: float = 0.2, load: float = 0.7) -> Workload:
    """Read the published repository, its `raw-traces.tar.gz`, a folder of `cluster*.csv`, one such file, or one
    table of all jobs with the columns `job_idx, cluster`."""
    if seed < 0:
        raise InputError(f"seed must be 0 or more, not {seed}.")
    if not 0 <= spot_share <= 1:
        raise InputError(f"spot_share must be between 0 and 1, not {spot_share:g}.")
    if not (math.isfinite(load) and load > 0):
        raise InputError(f"load must be above 0, not {load:g}.")
    jobs: list[_Job] = []
    bad: list[BadRow] = []
    for table in _tables(Path(path)):
        read, wrong = _jobs_of(table)
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


def _tables(path: Path) -> Iterator[Table]:
    """The tables to read: those of an archive or a folder, or the one file."""
    if path.is_dir():
        tables = next((found for found in (sorted(path.glob(pattern)) for pattern in PLACES) if found), [])
        if not tables:
            raise InputError(
                f"{path}: there is no file cluster*.csv in this directory, and no data/{ARCHIVE}."
                " Give the folder that has them."
            )
        for table in tables:
            yield from _tables(table)
    elif path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield from _archived(path)
    else:
        yield read_table(path, MSR_COLUMNS, OPTIONAL)


def _archived(path: Path) -> Iterator[Table]:
    """The tables inside a tar archive; nothing is unpacked to the disk."""
    try:
        with tarfile.open(path) as archive:
            members = [m for m in archive if m.isfile() and fnmatch(Path(m.name).name, "cluster*.csv")]
            for member in sorted(members, key=lambda member: member.name):
                file = archive.extractfile(member)
                assert file is not None
                yield table_of_bytes(f"{path}/{member.name}", file.read(), MSR_COLUMNS, OPTIONAL)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as a tar archive ({error}). Download it again.") from error
    if not members:
        raise InputError(f"{path}: there is no file cluster*.csv in this archive. Give {ARCHIVE}.")


def _jobs_of(table: Table) -> tuple[list[_Job], tuple[BadRow, ...]]:
    """The jobs of one table. Names are `cluster/job_id`, or `cluster/job_idx` in a table of all jobs."""
    key = "job_id" if "job_id" in table.columns else "job_idx"
    if key not in table.columns:
        raise InputError(f"{table.file}: column job_id missing. The columns are job_id, {', '.join(MSR_COLUMNS)}.")
    checks = Checks(table)
    ids = checks.text(key)
    clusters = (
        checks.text("cluster") if "cluster" in table.columns else [Path(table.file).name.split(".")[0]] * len(table)
    )
    submit, duration = (
        checks.number(name, most=MOST_SECONDS, kinds=("duration",)) for name in ("submission_time", "duration")
    )
    gpus = checks.number("num_gpu", most=MOST_NODES)
    checks.reject("submission_time", submit < 0, "must not be negative")
    checks.reject("duration", duration < 0, "must not be negative")
    checks.reject("num_gpu", (gpus < 1) | (gpus != np.floor(gpus)), "must be a whole number of 1 or more")
    names = [f"{cluster}/{job}" for cluster, job in zip(clusters, ids, strict=True)]
    checks.reject_duplicates(key, names)
    columns = (submit.tolist(), names, clusters, [int(count) for count in gpus], duration.tolist())
    return list(zip(*columns, strict=True)), checks.bad_rows()


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
    wanted = asked / span / load / CARDS_A_NODE
    if wanted > MOST_NODES:
        raise InputError(
            f"load = {load:g} asks for {wanted:,.0f} nodes; the most is {MOST_NODES:,}. Are the times seconds,"
            " and is there more than a moment between the first submission and the last? Else give a higher load."
        )
    count = max(math.ceil(wanted), max(task.pods for task in tasks))
    return tuple(NodeSpec(i, f"n{i}", GPU_MODEL, CARDS_A_NODE) for i in range(count))
