"""What if: a variant is what a simulation of the same workload gives, and the table says who is better."""

from __future__ import annotations

from typing import Any

import pytest

from gfs import generate
from gfs.assembly.parameters import Parameters
from gfs.assembly.run import run_simulation
from gfs.dashboard.files import RunTables
from gfs.dashboard.live_day import Heard, day_of
from gfs.dashboard.live_whatif import LiveWhatIf
from gfs.dashboard.recording import recording_of
from gfs.dashboard.replay import Replay
from gfs.dashboard.site import Site
from gfs.dashboard.whatif import WhatIf, WhatIfRun
from gfs.domain.errors import InputError
from gfs.domain.workload import Workload
from gfs.telemetry.event_log import EVENTS
from waiting import wait_until


@pytest.fixture(scope="module")
def recorded() -> tuple[Workload, WhatIf, RunTables]:
    workload = generate("demo", nodes=4, days=1, spot_scale=3, seed=1)
    result = run_simulation(workload, "yarn-cs", Parameters())
    tables = RunTables(result.events, workload.nodes, {}, None, (), "yarn-cs", Parameters().to_dict())
    return workload, WhatIf(tables, workload), tables


def done(whatif: WhatIf | LiveWhatIf, **query: str) -> WhatIfRun:
    wait_until(lambda: whatif.ask(query).state != "running")
    return whatif.ask(query)


def test_a_variant_is_a_simulation_of_the_same_jobs(recorded: tuple[Workload, WhatIf, RunTables]) -> None:
    workload, whatif, _ = recorded
    run = done(whatif, scheduler="static", quota="fixed", quota_share="0.3")
    expected = run_simulation(workload, "static", Parameters(quota="fixed", quota_share=0.3), record_quota=True)
    told = dict(zip(run.headings, run.variant, strict=True))
    assert told["evicted of runs [%]"] == f"{100 * expected.metrics.spot.eviction_rate:.3g}"
    before = dict(zip(run.headings, run.recorded, strict=True))
    assert before["evicted of runs [%]"] != told["evicted of runs [%]"]
    assert (run.title, run.left_out) == ("static, quota = fixed, quota_share = 0.3", 0)
    recording = whatif.recording(run.key)
    last = expected.events["time"].to_numpy().max()
    assert recording.entries.time[-1] == last
    assert recording.scheduler == "static"
    assert set(recording.quota.guarantee_hours) == {1}


def test_the_same_run_is_neither_better_nor_worse(recorded: tuple[Workload, WhatIf, RunTables]) -> None:
    run = done(recorded[1])
    assert run.variant == run.recorded
    assert not any(run.better)


def test_fewer_nodes(recorded: tuple[Workload, WhatIf, RunTables]) -> None:
    run = done(recorded[1], nodes="0.5")
    assert len(recorded[1].recording(run.key).nodes.name) == 2
    waits = run.headings.index(next(heading for heading in run.headings if heading.startswith("HP wait mean")))
    assert run.better[waits] == -1, (run.headings, run.recorded, run.variant)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"scheduler": "gsf"}, "gsf"),
        ({"quota_share": "2"}, "quota_share"),
        ({"quota": "much"}, "quota"),
        ({"nodes": "0"}, "give a share of the nodes"),
        ({"nodes": "many"}, "give a share of the nodes"),
    ],
)
def test_what_cannot_be_asked(recorded: tuple[Workload, WhatIf, RunTables], query: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        recorded[1].ask(query)
    site = Site(Replay(recording_of(recorded[2], "t")), recorded[1])
    assert site.respond("/api/v1/whatif", query).status == 400


def test_a_variant_that_was_not_asked_for(recorded: tuple[Workload, WhatIf, RunTables]) -> None:
    site = Site(Replay(recording_of(recorded[2], "t")), recorded[1])
    assert site.respond("/api/v1/recording", {"variant": "scheduler=lyra"}).status == 400
    assert Site(Replay(recording_of(recorded[2], "t"))).respond("/api/v1/whatif", {}).status == 404


def heard_of(workload: Workload, until: float) -> tuple[list[Heard], Parameters]:
    """What a controller that ran yarn-cs would have heard by a moment."""
    parameters = Parameters()
    log = run_simulation(workload, "yarn-cs", parameters).events.to_pylist()
    tasks = {task.name: task for task in workload.tasks}
    heard: list[Heard] = []
    for row in log:
        if row["time"] > until:
            break
        what, last = EVENTS.index(row["event"]), heard[-1] if heard else None
        pod = ((row["node"], row["gpus"]),) if row["event"] == "start" else ()
        if last is not None and (last.what, last.task.name, last.run) == (what, row["task"], row["run"]):
            heard[-1] = last._replace(pods=last.pods + pod)
        else:
            heard.append(Heard(row["time"], what, tasks[row["task"]], row["run"], pod, row["reason"]))
    return heard, parameters


def test_the_day_of_a_controller_is_the_trace_that_it_ran() -> None:
    """Simulated again by the same scheduler, the day up to a moment happens as it did."""
    workload = generate("demo", nodes=4, days=1, spot_scale=3, seed=1)
    until = 50_000.0
    heard, parameters = heard_of(workload, until)
    tables, day = day_of(heard, workload.nodes, (), until, parameters.rules)
    submitted = [task for task in workload.tasks if task.submit_time <= until]
    assert [task.name for task in day.tasks] == [task.name for task in submitted]
    log = tables.events.to_pylist()
    over = {row["task"]: row["time"] for row in log if row["event"] == "finish"}
    assert set(over.values()) > {until}  # some have finished, some run
    for task, duration, cancelled in zip(day.tasks, day.durations, day.cancel_times, strict=True):
        whole = workload.durations[submitted[task.index].index]
        if over.get(task.name, until) < until:
            assert duration == pytest.approx(whole, abs=1e-6)
        elif task.name in over:
            assert duration <= whole + 1e-6
        else:
            assert cancelled == until
    again = run_simulation(day, "yarn-cs", parameters).events
    assert again.num_rows == tables.events.num_rows
    for one, two in zip(again.to_pylist(), tables.events.to_pylist(), strict=True):
        if one["time"] < until:
            assert {**one, "time": pytest.approx(one["time"], abs=1e-6), "cards": ""} == two


def test_a_controller_simulates_its_day_in_another_process() -> None:
    workload = generate("demo", nodes=4, days=1, spot_scale=3, seed=1)
    heard, parameters = heard_of(workload, 50_000.0)
    calls = []

    def day() -> tuple[RunTables, Workload]:
        calls.append(None)
        return day_of(heard, workload.nodes, (), 50_000.0, parameters.rules)

    whatif = LiveWhatIf(day, "yarn-cs", parameters)
    first = whatif.ask({"scheduler": "yarn-cs"})
    assert (first.state, first.day) == ("running", "1")
    run = done(whatif, scheduler="yarn-cs", day=first.day)
    assert (run.state, run.error) == ("done", "")
    assert run.variant == run.recorded  # the same scheduler: nothing would have been otherwise
    assert len(calls) == 1
    assert whatif.recording(run.key).scheduler == "yarn-cs"
    with pytest.raises(InputError, match="no longer kept"):
        whatif.ask({"day": "77"})
    with pytest.raises(InputError, match="unknown scheduler"):
        whatif.ask({"scheduler": "none-such"})
    with pytest.raises(InputError, match="nothing was recorded"):
        LiveWhatIf(lambda: day_of((), (), (), 0.0, parameters.rules), "gfs", parameters).ask({})
