"""Tables and pages: every section is there, holds data, and loads nothing from elsewhere."""

from __future__ import annotations

import heapq
import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from gfs.assembly.parameters import Parameters
from gfs.assembly.result import RunResult
from gfs.domain.errors import InputError
from gfs.domain.node import NodeSpec
from gfs.domain.task import Priority, Task
from gfs.domain.workload import Workload
from gfs.report.columns import EVICTED, SPOT_WAIT, amount, comparison_table, percent, short_seconds
from gfs.report.comparison import comparison_page
from gfs.report.figures import colours_of
from gfs.report.inspection_page import inspection_page
from gfs.report.page import Chart, PageSection, Paragraph, build_page, write_page
from gfs.report.terminal import TerminalTable
from gfs.report.trace_tables import inspection_tables
from gfs.telemetry.metrics import Metrics, compute_metrics
from gfs.workloads.inspection import inspect


def outcome(name: str, metrics: Metrics, events: pa.Table, work: Workload, quota: pa.Table | None = None) -> RunResult:
    return RunResult(name, metrics, events, quota, "none", Parameters(), (None, None), 0, 0.0, work)


def toy_workload(tasks: int = 120, nodes: int = 6, days: float = 2.0, seed: int = 1) -> Workload:
    rng = random.Random(seed)
    made, durations = [], []
    for i, submit in enumerate(sorted(round(rng.uniform(0, days * 86_400)) for _ in range(tasks))):
        kind = Priority.SPOT if rng.random() < 0.35 else Priority.HP
        gpus, duration = (
            rng.choice([0.5, 1.0, 1.0, 2.0, 4.0, 8.0]),
            float(round(rng.lognormvariate(8.6, 1.1))),
        )
        made.append(Task(i, f"t{i:05d}", f"team-{i % 11}", "A100", kind, 1, gpus, float(submit)))
        durations.append(duration)
    machines = tuple(NodeSpec(i, f"n{i}", "A100", 8) for i in range(nodes))
    return Workload(tuple(made), machines, "toy", tuple(durations))


def toy_run(workload: Workload, name: str, spot_share: float) -> RunResult:
    """First fit; HP evicts spot; spot holds at most a share of the cards. Only for having a log to draw."""
    free = [float(n.gpus) for n in workload.nodes]
    cap, spot_used = spot_share * sum(free), 0.0
    rows: list[tuple[float, str, Task, int, str]] = []
    queue: list[Task] = []
    running: dict[int, tuple[int, float]] = {}  # task -> node, start
    left = dict(enumerate(workload.durations))
    number = dict.fromkeys(left, 0)
    heap = [(t.submit_time, 1, t.index, 0) for t in workload.tasks]
    heapq.heapify(heap)

    def stop(now: float, task: Task, event: str) -> None:
        nonlocal spot_used
        node, start = running.pop(task.index)
        free[node] += task.gpus
        spot_used -= task.gpus * (task.is_spot)
        rows.append((now, event, task, number[task.index], f"n{node}"))
        if event == "evict":
            overhead = 0.0 if number[task.index] == 1 else 40.0
            left[task.index] -= max(0.0, now - start - overhead) // 3600 * 3600
            queue.append(task)

    while heap:
        now, what, index, run = heapq.heappop(heap)
        task = workload.tasks[index]
        if what == 1:
            rows.append((now, "submit", task, 0, ""))
            queue.append(task)
        elif index in running and number[index] == run:
            stop(now, task, "finish")
        for want in sorted(queue, key=lambda t: (t.priority, t.index)):
            if want.is_spot and spot_used + want.gpus > cap:
                continue
            node = next((i for i, f in enumerate(free) if f >= want.gpus), None)
            if node is None and not want.is_spot:
                for i in range(len(free)):
                    spot = [workload.tasks[t] for t, (n, _) in running.items() if n == i]
                    victims = [t for t in spot if t.is_spot]
                    if free[i] + sum(t.gpus for t in victims) >= want.gpus:
                        for victim in victims:
                            stop(now, victim, "evict")
                        node = i
                        break
            if node is None:
                continue
            queue.remove(want)
            number[want.index] += 1
            free[node] -= want.gpus
            spot_used += want.gpus * (want.is_spot)
            running[want.index] = (node, now)
            rows.append((now, "start", want, number[want.index], f"n{node}"))
            end = now + left[want.index] + (40.0 if number[want.index] > 1 else 0.0)
            heapq.heappush(heap, (end, 0, want.index, number[want.index]))
    events = pa.table(
        {
            "time": [r[0] for r in rows],
            "event": [r[1] for r in rows],
            "task": [r[2].name for r in rows],
            "run": [r[3] for r in rows],
            "node": [r[4] for r in rows],
            "gpus": [r[2].gpus for r in rows],
            "reason": [""] * len(rows),
        }
    )
    times = [300.0 * i for i in range(int(rows[-1][0] / 300) + 1)]
    quota = pa.table(
        {
            "time": times,
            "gpu_model": ["A100"] * len(times),
            "guarantee_hours": [1.0] * len(times),
            "quota": [cap] * len(times),
            "spot_in_use": [cap / 2] * len(times),
        }
    )
    metrics = compute_metrics(events, workload, quota=quota)
    return outcome(name, metrics, events, workload, quota)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return toy_workload()


@pytest.fixture(scope="module")
def outcomes(workload: Workload) -> list[RunResult]:
    return [
        toy_run(workload, "static", 1.0),
        toy_run(workload, "yarn-cs", 0.5),
        toy_run(workload, "gfs", 0.25),
    ]


def figures_of(page: str) -> list[dict[str, Any]]:
    found = re.search(r"const figures=(\[.*?\]);\n", page)
    assert found
    figures: list[dict[str, Any]] = json.loads(found[1].replace("<\\/", "</"))
    return figures


def own_text(page: str) -> str:
    """The page without the embedded chart library."""
    return re.sub(r"<script>/\*.*?</script>", "", page, count=1, flags=re.S)


def assert_offline(page: str) -> None:
    assert "<link" not in page.replace('<link rel="icon" href="data:,">', "")
    assert "@import" not in own_text(page)
    assert "http" not in own_text(page)  # the library names where icons of maps are; we draw none
    assert page.count("Plotly.react(") == page.count("const template=") == (1 if 'class="chart"' in page else 0)


def test_comparison_page(tmp_path: Path, workload: Workload, outcomes: list[RunResult]) -> None:
    out = tmp_path / "report.html"
    comparison_page(outcomes, workload, out)
    page = out.read_text(encoding="utf-8")
    assert_offline(page)
    assert len(page) < 6_000_000
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "What changed",
        "Side by side",
        "Waiting against eviction",
        "How long tasks waited",
        "Whose jobs",
        "GPU allocation over time",
        "When spot runs are evicted",
        "Spot quota",
        "Node by node",
        "Parameters",
    ]
    assert "With gfs in place of static:" in page
    assert "Both did the same useful work, so it is worth the same" in page
    assert "Spot quota in force: none." in page
    figures = figures_of(page)
    assert len(figures) == page.count('class="chart"') == 8
    for figure in figures:
        for trace in figure["data"]:
            assert "x0" in trace or len(trace["x"]) > 0
            assert len(trace["y"]) > 0
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_less_useful_work_costs_money(tmp_path: Path, workload: Workload, outcomes: list[RunResult]) -> None:
    """Not that the last task ends later, which takes from the goodput of who did the same work."""
    out, (before, *_, after) = tmp_path / "report.html", outcomes
    less = replace(after.metrics, useful_gpu_hours=after.metrics.useful_gpu_hours - 1, goodput_rate_total=0.1)
    comparison_page([before, replace(after, metrics=less)], workload, out)
    page = out.read_text(encoding="utf-8")
    assert "useful share of the pool gained x GPUs x price x 730 h" in page
    assert "The change in useful work" in page


def test_the_same_results_give_the_same_bytes(tmp_path: Path, workload: Workload, outcomes: list[RunResult]) -> None:
    for name in ("one.html", "other.html"):
        comparison_page(outcomes, workload, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_time_axes_show_dates_where_the_first_day_is_known(
    tmp_path: Path, workload: Workload, outcomes: list[RunResult]
) -> None:
    out = tmp_path / "dates.html"
    comparison_page([replace(o, parameters=Parameters(first_day="2024-04-01")) for o in outcomes], workload, out)
    page = out.read_text(encoding="utf-8")
    assert "Time 0 is 2024-04-01 00:00" in page
    allocation = next(f for f in figures_of(page) if "yaxis2" in f["layout"])
    assert allocation["layout"]["xaxis"]["type"] == "date"
    assert allocation["data"][0]["x0"].startswith("2024-04-01 ")
    assert allocation["data"][0]["dx"] % 60_000 == 0  # milliseconds: whole minutes


def test_figures_are_loaded_for_pages_alone() -> None:
    """Plotly takes a tenth of a second: a command that writes no page does without."""
    modules = "gfs.cli.main, gfs.cli.compare, gfs.report.columns, gfs.sweeps.table, gfs.plans.view, gfs.api"
    code = f"import sys, {modules}; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_comparison_of_one_scheduler_of_none_and_without_tasks(
    tmp_path: Path, workload: Workload, outcomes: list[RunResult]
) -> None:
    out = tmp_path / "one.html"
    comparison_page([replace(outcomes[2], quota=None)], workload, out)
    page = out.read_text(encoding="utf-8")
    assert "With gfs: " in page
    assert "<h2>Spot quota" not in page
    comparison_page([], workload, out)
    assert "Nothing was run" in out.read_text(encoding="utf-8")
    empty = Workload((), workload.nodes)
    nothing = outcomes[0].events.slice(0, 0)
    comparison_page([outcome("gfs", compute_metrics(nothing, empty), nothing, empty)], empty, out)
    assert_offline(out.read_text(encoding="utf-8"))


def test_names_cannot_break_the_page(tmp_path: Path, workload: Workload, outcomes: list[RunResult]) -> None:
    evil = "</script><b>x"
    out = tmp_path / "evil.html"
    comparison_page([replace(outcomes[0], scheduler=evil)], replace(workload, name=evil), out)
    assert evil not in out.read_text(encoding="utf-8")
    inspection_page(inspect(replace(workload, name=evil)), out)
    assert evil not in out.read_text(encoding="utf-8")


def test_inspection_page(tmp_path: Path, workload: Workload) -> None:
    out = tmp_path / "trace.html"
    inspection_page(inspect(workload), out)
    page = out.read_text(encoding="utf-8")
    assert_offline(page)
    assert len(page) < 6_000_000
    for title in ("GPU requests", "Durations", "Demand of the organizations", "Load against capacity"):
        assert f"<h2>{title}</h2>" in page
    assert "<h2>Hour of day</h2>" in page
    figures = figures_of(page)
    assert len(figures) == 7
    assert all(len(trace["y"]) for figure in figures for trace in figure["data"])
    # 8 organizations by name and the other three together
    assert len(figures[4]["data"]) == 9
    assert figures[4]["data"][-1]["name"] == "others"


@pytest.mark.parametrize("kinds", [(), (Priority.HP,), (Priority.SPOT,)], ids=["no tasks", "only HP", "only spot"])
def test_inspection_of_odd_traces(tmp_path: Path, workload: Workload, kinds: tuple[Priority, ...]) -> None:
    seen = inspect(workload.with_tasks(t for t in workload.tasks if t.priority in kinds))
    inspection_page(seen, tmp_path / "odd.html")
    assert_offline((tmp_path / "odd.html").read_text(encoding="utf-8"))
    assert printed(*inspection_tables(seen))


def printed(*tables: Any, width: int = 140) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(*map(TerminalTable, tables))
    return capture.get()


def test_comparison_table_says_which_quota_was_in_force(outcomes: list[RunResult]) -> None:
    rows = [(o.scheduler, o.metrics) for o in outcomes]
    each = [f"fixed {i}%" for i in range(len(rows))]
    assert f"spot quota: {rows[0][0]} fixed 0%, {rows[1][0]} fixed 1%" in printed(comparison_table(rows, "", each))
    assert "spot quota: none" in printed(comparison_table(rows, "", ["none"] * len(rows)))


def test_comparison_table_marks_the_best_without_colour(outcomes: list[RunResult]) -> None:
    table = comparison_table([(o.scheduler, o.metrics) for o in outcomes])
    text = printed(table, width=80)
    lines = [line for line in text.splitlines() if line.startswith(("static", "yarn-cs", "gfs"))]
    assert len(lines) == 6  # two parts
    assert "best of its column" in text
    fewest = min(range(3), key=lambda i: outcomes[i].metrics.spot.wasted_gpu_hours)
    wasted = table.header.index("wasted [GPU-h]")
    assert (fewest, wasted) in table.marked()
    assert f"{table.texts()[fewest][wasted]}*" in lines[fewest]
    assert "…" not in text


def test_a_figure_has_one_unit_whatever_its_size() -> None:
    assert SPOT_WAIT.heading == "spot wait mean [s]"
    assert [SPOT_WAIT.text(s) for s in (0.0, 0.314, 28.4, 6494.5, 90_000.0)] == ["0", "0.31", "28.4", "6,494", "90,000"]
    assert SPOT_WAIT.value({"spot_tasks": 0, "spot_jqt_mean": 0.0}) is None
    assert SPOT_WAIT.text(None) == "–"


def test_best_rows() -> None:
    def best(*rates: float | None) -> frozenset[int]:
        return EVICTED.best_rows([EVICTED.value({"spot_runs": 9, "spot_eviction_rate": rate}) for rate in rates])

    assert best(0.2, 0.1, 0.1) == {1, 2}
    assert best(0.1, 0.1) == frozenset()
    assert best(0.1) == frozenset()
    # Suspending at the end of a lease is no eviction: it neither wins nor loses.
    leases = replace(compute_metrics(ONE_EVENTS, WORLD), leases=True).figures()
    assert EVICTED.value(leases) is None
    assert best(None, 0.1, 0.2) == {1}


# One spot task of 4 of the 8 cards: waits 1800 s, runs from 0:30 to 1:30.
WORLD = Workload(
    (Task(0, "s", "o", "A100", Priority.SPOT, 1, 4.0, 0.0),), (NodeSpec(0, "n0", "A100", 8),), "one", (3600.0,)
)
ONE_EVENTS = pa.table(
    {
        "time": [0.0, 1800.0, 5400.0],
        "event": ["submit", "start", "finish"],
        "task": ["s"] * 3,
        "run": [0, 1, 1],
        "node": ["", "n0", "n0"],
        "gpus": [4.0] * 3,
    }
)
ONE = outcome("one", compute_metrics(ONE_EVENTS, WORLD, window=(0.0, 7200.0)), ONE_EVENTS, WORLD)


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_page(tmp_path, "t", "s", [])  # a folder
    with pytest.raises(InputError, match="cannot be written"):
        write_page(tmp_path / "missing" / "a.html", "t", "s", [])
    assert list(tmp_path.iterdir()) == []


def test_a_page_without_charts_carries_no_library() -> None:
    assert len(build_page("t", "s", [PageSection("a", [Paragraph("b < c")])])) < 20_000
    assert "b &lt; c" in build_page("t", "s", [PageSection("a", [Paragraph("b < c")])])
    chart = Chart("c", "", [{"x": [1]}], {})
    assert len(build_page("t", "s", [PageSection("a", [chart])])) > 100_000


def test_texts() -> None:
    assert [short_seconds(s) for s in (0.0, 42.0, 575.4, 12_312.0, 1e6)] == [
        "0 s",
        "42 s",
        "9.59 min",
        "3.42 h",
        "11.6 d",
    ]
    assert [percent(x) for x in (0.0, 0.0121, 0.5)] == ["0.0%", "1.21%", "50.0%"]
    assert [amount(x) for x in (3.0, 8.26667, 12_345.6)] == ["3", "8.27", "12,346"]
    colours = colours_of(["gfs", "mine", "other", "static"])
    assert len(set(colours.values())) == 4
    assert colours["gfs"] == colours_of(["a", "gfs"])["gfs"]
