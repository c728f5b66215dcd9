"""`gfs trace convert --from slurm` on what a real Slurm writes of a few real jobs."""

from __future__ import annotations

from pathlib import Path

from slurm import FIELDS, Slurm, slurm
from typer.testing import CliRunner

from gfs.cli.main import app
from gfs.records.slurm import read_slurm
from gfs.workloads import read_trace

LONG = 600
"""Seconds of a job that is to run until something else ends it."""


def test_preempted_array_failed_and_cancelled_jobs(tmp_path: Path) -> None:
    with slurm(tmp_path / "slurm") as cluster:
        asks = ("--account=vision", "--qos=scavenger", "--gres=gpu:a100:4", "--requeue")
        victim = cluster.submit(*asks, seconds=LONG, again=4)
        cluster.wait("a running victim", lambda: _state(cluster, victim) == "RUNNING")
        late = cluster.submit("--account=vision", "--qos=normal", "--gres=gpu:a100:8", seconds=1)
        cluster.answer("scancel", late)  # it could not start: only high preempts
        # sacct counts whole seconds: the first run is to have one.
        cluster.wait("a second of the victim", lambda: _seconds(cluster, victim) not in (None, "0:00\n"))
        taker = cluster.submit("--account=language", "--qos=high", "--gres=gpu:a100:8", seconds=1)
        array = cluster.submit("--account=language", "--qos=normal", "--gpus=2", "--array=0-1", seconds=1)
        without = cluster.submit("--account=language", "--qos=normal", seconds=0)
        cluster.wait("the victim to wait again", lambda: _state(cluster, victim) == "PENDING")
        cluster.wait("an empty queue", lambda: _drained(cluster, victim))
        done = {victim, taker, f"{array}_0", f"{array}_1", without}
        cluster.wait("all records", lambda: _completed(cluster) >= done)  # the accounting is a moment behind
        wanted = "--format=" + ",".join(FIELDS)
        jobs = cluster.answer("sacct", "-a", "-X", "-D", "--parsable2", wanted)
        nodes = cluster.answer("scontrol", "show", "nodes")
    assert jobs is not None
    assert nodes is not None
    (tmp_path / "jobs.txt").write_text(jobs)
    (tmp_path / "nodes.txt").write_text(nodes)

    read = read_slurm(tmp_path / "jobs.txt", tmp_path / "nodes.txt")
    tasks = {task.name: task for task in read.workload.tasks}
    assert set(tasks) == {victim, taker, f"{array}_0", f"{array}_1"}, jobs
    assert [name for name, task in tasks.items() if task.is_spot] == [victim]
    assert {name: task.gpus for name, task in tasks.items()} == {victim: 4, taker: 8, f"{array}_0": 2, f"{array}_1": 2}
    assert tasks[victim].submit_time <= tasks[taker].submit_time  # not the time at which it was requeued
    assert 4 <= read.workload.durations[tasks[victim].index] < LONG
    assert dict(read.left_out) == {"asks for no GPU": 1, "never ran": 1}, (without, late, jobs)
    assert read.workload.capacity() == {"a100": 8}

    out = tmp_path / "trace"
    words = ["trace", "convert", "--from", "slurm", str(tmp_path / "jobs.txt"), "--nodes", str(tmp_path / "nodes.txt")]
    assert CliRunner().invoke(app, [*words, "--out", str(out)]).exit_code == 0
    assert len(read_trace(out / "jobs.csv", out / "nodes.csv").workload.tasks) == 4


def test_the_exported_quota_limits_a_qos(tmp_path: Path) -> None:
    """Eight GPUs, of which HP wants five: a QOS for spot jobs gets three, and a fourth one waits for it."""
    (tmp_path / "nodes.csv").write_text("node_name,gpu_model,gpu_capacity_num,cpu_num\ngpu1,a100,8,2\n")
    demand = "".join(f"2026-05-{4 + hour // 24:02}T{hour % 24:02}:00,vision,a100,5\n" for hour in range(192))
    (tmp_path / "demand.csv").write_text("time,organization,gpu_model,gpus\n" + demand)
    files = ["--series", str(tmp_path / "demand.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--model", "weekly-peak"]
    words = ["quota", "export", "--as", "slurm", "--name", "scavenger", *files]
    with slurm(tmp_path / "slurm") as cluster:
        for number, options in enumerate(([], ["--flavor", "a100=a100"])):  # of all GPUs, of those of a type
            script = tmp_path / f"limit{number}.sh"
            told = CliRunner().invoke(app, [*words, *options, "--out", str(script)])
            assert told.exit_code == 0, told.output
            assert cluster.answer("sh", str(script)) is not None, script.read_text()
        shown = cluster.answer("sacctmgr", "-nP", "show", "qos", "where", "name=scavenger", "format=GrpTRES")
        assert shown is not None
        assert set(shown.strip().split(",")) == {"gres/gpu=3", "gres/gpu:a100=3"}
        first = cluster.submit("--account=vision", "--qos=scavenger", "--gres=gpu:a100:3", seconds=LONG)
        cluster.wait("a running job", lambda: _state(cluster, first) == "RUNNING")
        second = cluster.submit("--account=vision", "--qos=scavenger", "--gres=gpu:a100:1", seconds=1)
        cluster.wait("the limit", lambda: "QOSGrpGRES" in (cluster.answer("squeue", "-hj", second, "-o", "%r") or ""))
        other = cluster.submit("--account=vision", "--qos=normal", "--gres=gpu:a100:4", seconds=1)
        cluster.wait("room for others", lambda: _state(cluster, other) in ("RUNNING", "COMPLETING", ""))
        cluster.answer("scancel", first, second)
        cluster.wait("an empty queue", lambda: not (cluster.answer("squeue", "-h") or "").strip())


def _seconds(cluster: Slurm, job: str) -> str | None:
    return cluster.answer("squeue", "-hj", job, "-o", "%M")


def _state(cluster: Slurm, job: str) -> str:
    return (cluster.answer("squeue", "-h", "-j", job, "-o", "%T") or "").strip()


def _completed(cluster: Slurm) -> set[str]:
    """Jobs whose last run the accounting knows to have ended well."""
    rows = (cluster.answer("sacct", "-aXn", "--parsable2", "--format=JobID,State") or "").split()
    return {row.split("|")[0] for row in rows if row.endswith("|COMPLETED")}


def _drained(cluster: Slurm, victim: str) -> bool:
    cluster.answer("scontrol", "update", f"jobid={victim}", "starttime=now")  # Slurm holds requeued jobs for minutes
    return not (cluster.answer("squeue", "-h") or "").strip()
