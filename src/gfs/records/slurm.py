"""Slurm's accounting: `sacct -a -X -D --parsable2` and `scontrol show nodes`.

    sacct -a -X -D --parsable2 -S 2026-01-01 -E now > jobs.txt \\
      --format=JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocTRES,ReqTRES,NNodes
    scontrol show nodes > nodes.txt

* A record a run: with -D a job that was requeued has several, each with the requeue as its submission. They are one
  task: submitted with its first, as long as its last (unless it saves its work, a job begins again).
* An array is a task for each of its elements (`12_3`); steps (`12.batch`) are not jobs; parts of a heterogeneous job
  (`12+0`) are tasks of their own, which is told.
* GPU model: the type in AllocTRES or ReqTRES (`gres/gpu:a100=4`), else that of the nodes of its partition.
* Pods: a pod for each node of the job, if its GPUs divide evenly among them.
* Class: QOS and partition, by --spot or by their names. Organization: the account.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final, NamedTuple

from gfs.domain.errors import BadRow, BadRows, InputError
from gfs.domain.limits import MOST_CPUS, MOST_GPUS_A_NODE
from gfs.domain.node import NodeSpec
from gfs.records.conversion import Conversion, JobRecord, Notes, SpotRule, assemble
from gfs.workloads.readers.file_bytes import read_bytes

NEEDED: Final = ("JobID", "Account", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State")
GPU: Final = re.compile(r"gres/gpu(?::(?P<model>[^=,]+))?=(?P<count>\d+)")
NEVER_RAN: Final = ("", "Unknown", "None")
OVER: Final = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE")
"""States of a run that its job ended with; after others (PREEMPTED, NODE_FAIL, REQUEUED) it begins again."""
NODE: Final = re.compile(r"^NodeName=", re.MULTILINE)


class _Run(NamedTuple):
    """One row of sacct."""

    row: int
    fields: Mapping[str, str]
    submitted: float
    seconds: float

    @property
    def ran(self) -> bool:
        return self.fields["Start"] not in NEVER_RAN

    @property
    def state(self) -> str:
        """'CANCELLED by 1000' is CANCELLED."""
        return self.fields["State"].split(" ")[0]


@dataclass(frozen=True, slots=True)
class _Nodes:
    specs: tuple[NodeSpec, ...]
    models: Mapping[str, Counter[str]]
    """Partition -> GPU models of its nodes; '' for all partitions."""


def read_slurm(
    jobs: Path, nodes: Path, *, spot: Sequence[str] = (), zone: tzinfo = UTC, skip_bad_rows: bool = False
) -> Conversion:
    """Read what sacct and scontrol wrote. `spot`: QOS or partitions that may be evicted ('preempt*'); none: guessed
    by their names. `zone`: the clock of the machine on which sacct ran."""
    notes = Notes()
    given = _read_nodes(nodes, notes)
    runs, bad = _read_runs(jobs, zone, notes)
    if bad and not skip_bad_rows:
        raise BadRows(bad)
    if bad:
        notes.left_out["cannot be read"] += len(bad)
    is_spot = SpotRule(spot, "QOS / partition")
    by_job: dict[str, list[_Run]] = {}
    for run in runs:
        by_job.setdefault(run.fields["JobID"], []).append(run)
    records = [record for job, of_job in by_job.items() if (record := _record(job, of_job, given, is_spot, notes))]
    is_spot.note(notes)
    notes.guess("organization by Account")
    return assemble(records, given.specs, jobs.name, notes)


def _read_runs(path: Path, zone: tzinfo, notes: Notes) -> tuple[list[_Run], tuple[BadRow, ...]]:
    text = _text(path)
    reader = csv.DictReader(io.StringIO(text), delimiter="|", quoting=csv.QUOTE_NONE)
    have = reader.fieldnames or []
    missing = [name for name in NEEDED if name not in have]
    if "AllocTRES" not in have and "ReqTRES" not in have:
        missing.append("AllocTRES or ReqTRES")
    if missing:
        raise InputError(
            f"{path}: column {', '.join(missing)} missing (found: {', '.join(have[:20]) or 'none'})."
            " Write it with sacct --parsable2 and these names in --format."
        )
    runs: list[_Run] = []
    bad: list[BadRow] = []
    for row, fields in enumerate(reader, start=2):
        if "." in (fields.get("JobID") or ""):
            continue  # a step
        if None in fields or None in fields.values():
            shown = (fields.get("JobID") or "")[:60]
            bad.append(BadRow(str(path), row, "(row)", shown, f"not the {len(have)} values that the first line names"))
            continue
        try:
            submitted = _moment(fields["Submit"], zone)
            seconds = float(int(fields["ElapsedRaw"]))
        except ValueError:
            column = "Submit" if fields["ElapsedRaw"].isdigit() else "ElapsedRaw"
            why = "not a time such as 2026-05-01T12:00:00" if column == "Submit" else "not a whole number of seconds"
            bad.append(BadRow(str(path), row, column, fields[column][:60], why))
            continue
        runs.append(_Run(row, fields, submitted, seconds))
    if zone is UTC:
        notes.guess("times are UTC (sacct writes the clock of its machine: --timezone names another)")
    return runs, tuple(bad)


def _record(job: str, runs: list[_Run], nodes: _Nodes, is_spot: SpotRule, notes: Notes) -> JobRecord | None:
    """The task of a job with these runs; None, noted, where there is none."""
    runs = sorted(runs, key=lambda run: (run.submitted, run.fields["Start"], run.row))
    ran = [run for run in runs if run.ran and run.fields.get("AllocTRES", "-")]
    last = ran[-1] if ran else runs[-1]
    fields = last.fields
    gpus, model = _gpus(fields)
    if not gpus:
        notes.left_out["asks for no GPU"] += 1
        return None
    if not ran:
        notes.left_out["never ran"] += 1
        return None
    if "[" in job:
        notes.left_out["waiting elements of an array, which have no records of their own yet"] += 1
        return None
    if last.fields["End"] in NEVER_RAN or last.state == "RUNNING":
        notes.guess("jobs that still run last as long as they have run so far")
    elif last.state not in OVER:
        notes.guess("jobs whose last run was preempted or lost last as long as that run")
    if len(ran) > 1:
        notes.guess("jobs that ran several times (requeued) last as long as their last run")
    if "+" in job:
        notes.guess("parts of heterogeneous jobs are tasks of their own")
    model = model or _model_of(fields["Partition"], nodes, notes)
    if not model:
        notes.left_out["its GPU model cannot be told: neither its TRES nor the nodes of its partition name one"] += 1
        return None
    count = _positive(fields.get("NNodes", "")) or 1
    pods = count if gpus % count == 0 else 1
    if pods != count:
        notes.guess("jobs whose GPUs do not divide evenly among their nodes are one pod")
    spot = is_spot(fields["QOS"], fields["Partition"])
    cpus = _tres(fields, "cpu") / pods
    owner = fields["Account"] or fields.get("User") or "unknown"
    return JobRecord(job, owner, model, spot, pods, gpus / pods, runs[0].submitted, last.seconds, cpus)


def _gpus(fields: Mapping[str, str]) -> tuple[int, str]:
    """GPUs of a job, and their model where it is named."""
    for column in ("AllocTRES", "ReqTRES"):
        found = [(match["model"] or "", int(match["count"])) for match in GPU.finditer(fields.get(column) or "")]
        if found:
            total = max((count for model, count in found if not model), default=sum(count for _, count in found))
            return total, max(found, key=lambda pair: (bool(pair[0]), pair[1]))[0]
    return 0, ""


def _tres(fields: Mapping[str, str], name: str) -> float:
    for column in ("AllocTRES", "ReqTRES"):
        for part in (fields.get(column) or "").split(","):
            key, _, value = part.partition("=")
            if key == name and value.isdigit():
                return min(float(value), MOST_CPUS)
    return 0.0


def _model_of(partition: str, nodes: _Nodes, notes: Notes) -> str:
    """The model that most GPUs of a partition are of, '' if it has none."""
    models = nodes.models.get(partition) or nodes.models[""]
    if not models:
        return ""
    (model, _), *others = models.most_common()
    if others:
        notes.guess(f"jobs of partition {partition} that name no GPU model: {model}, which most of its GPUs are")
    return model


def _read_nodes(path: Path, notes: Notes) -> _Nodes:
    """Nodes with GPUs of what `scontrol show nodes` writes, in one line each (-o) or several."""
    specs: list[NodeSpec] = []
    models: dict[str, Counter[str]] = {"": Counter()}
    blocks = NODE.split(_text(path))[1:]
    if not blocks:
        raise InputError(f"{path}: there is no NodeName= in it. Write it with: scontrol show nodes")
    for block in blocks:
        fields = dict(_pairs(f"NodeName={block}"))
        name, gres = fields["NodeName"], fields.get("Gres", "")
        kinds = _gres(gres)
        if not kinds:
            notes.guess("nodes without GPUs are left out")
            continue
        model, gpus = max(kinds, key=lambda kind: (kind[1], kind[0]))
        if len(kinds) > 1:
            notes.guess(f"nodes with several GPU models count as the most frequent one (such as {name}: {model})")
        if gpus > MOST_GPUS_A_NODE:
            raise InputError(f"{path}: node {name} has {gpus:,} GPUs (Gres={gres}); the most is {MOST_GPUS_A_NODE:,}")
        if not model:
            notes.guess("GPUs of nodes without a type are of one model, called gpu")
        specs.append(
            NodeSpec(len(specs), name, model or "gpu", gpus, _tres({"AllocTRES": fields.get("CfgTRES", "")}, "cpu"))
        )
        for partition in ("", *fields.get("Partitions", "").split(",")):
            models.setdefault(partition, Counter())[model or "gpu"] += gpus
    return _Nodes(tuple(specs), models)


def _pairs(block: str) -> Iterator[tuple[str, str]]:
    """Key and value of 'Key=value Key=value'; what has no '=' belongs to the value before it."""
    for word in block.split():
        key, separator, value = word.partition("=")
        if separator and key[:1].isupper():
            yield key, value


def _gres(text: str) -> list[tuple[str, int]]:
    """(model, GPUs) of 'gpu:a100:8(S:0-1),gpu:h100:4' or 'gpu:8'."""
    kinds = []
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.split(":")
        if words[0] == "gpu":
            count = _positive(words[-1]) if len(words) > 1 else 1
            kinds.append((words[1] if len(words) > 2 else "", count or 1))
    return kinds


def _positive(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _moment(text: str, zone: tzinfo) -> float:
    """Seconds since 1970 of '2026-05-01T12:00:00' on the clock of `zone`."""
    parsed = datetime.fromisoformat(text)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).timestamp()


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}). Convert it with iconv.") from None
