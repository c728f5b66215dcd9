"""The traces of many runs, with the parameters of one of them."""

from __future__ import annotations

from pathlib import Path

from gfs.batch.simulation import GeneratedTrace, TraceFiles, workload_of

NODES = "node_name,gpu_model,gpu_capacity_num,cpu_num\nn0,A100,8,96\n"
JOBS = (
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type,guarantee_hours\n"
    "says,a,A100,0,1,1,0,60,Spot,1\n"
    "silent,a,A100,0,1,1,0,60,Spot,\n"
)


def test_what_a_task_says_itself_holds_also_if_it_is_the_usual_value(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    trace = TraceFiles.of(tmp_path / "jobs.csv", tmp_path / "nodes.csv")
    assert [task.guarantee_hours for task in workload_of(trace, 4.0).tasks] == [1.0, 4.0]
    assert [task.guarantee_hours for task in workload_of(trace, 1.0).tasks] == [1.0, 1.0]


def test_tasks_of_a_made_up_trace_say_nothing() -> None:
    tasks = workload_of(GeneratedTrace("demo", nodes=4, days=1), 2.0, 600.0).tasks
    assert {(task.guarantee_hours, task.checkpoint_interval) for task in tasks} == {(2.0, 600.0)}
