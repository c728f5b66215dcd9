"""`gfs trace convert --from prometheus` on what a real Prometheus remembers of a made-up past."""

from __future__ import annotations

import csv
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gfs.cli.main import app
from gfs.workloads import read_trace
from gfs.workloads.readers.demand import read_demand
from prometheus import STEP, Past, node_series, pod_series, serving

SAMPLE = Path(__file__).parents[3] / "examples" / "records" / "prometheus.txt"
HOUR = 3600 // STEP
DAY = 24 * HOUR
PASSWORD = "s3cret-of-the-reader"
BCRYPT = "$2b$04$Bja5kEvTK0oIrNHYXHRQC.1cR5GXU7H8uHUevFdF/t5A124PqTm8m"
"""Of the password."""


def convert(url: str, out: Path, *options: str) -> Result:
    words = ["trace", "convert", "--from", "prometheus", url, "--out", str(out), *options]
    return CliRunner().invoke(app, words)


@pytest.fixture
def midnight() -> int:
    """The step with which a day began, three days ago."""
    return int(time.time() // 86400 - 3) * DAY


def clock(step: int) -> str:
    return f"{datetime.fromtimestamp(step * STEP, UTC):%Y-%m-%dT%H:%MZ}"


def life(
    past: Past, namespace: str, pod: str, created: int, start: int, end: int, *, after: str = "", **options: object
) -> None:
    """A pod that waits from `created` on, runs from `start` to `end` (steps), and then is Succeeded, Failed or gone."""
    made = {"kube_pod_created": created * STEP}
    began = {**made, "kube_pod_start_time": start * STEP}
    where = options.pop("node", "a")
    if start > created:
        past.add(pod_series(namespace, pod, phase="Pending", times=made, **options), created, start)  # type: ignore[arg-type]
    past.add(pod_series(namespace, pod, node=where, times=began, **options), start, end)  # type: ignore[arg-type]
    if after:
        done = {**began, "kube_pod_completion_time": end * STEP - 7}
        series = pod_series(namespace, pod, node=where, phase=after, times=done, **options)  # type: ignore[arg-type]
        past.add(series, end, end + HOUR)


def a_past(midnight: int) -> Past:
    """Three days of two nodes, of which the last is asked for from its beginning on."""
    past, end = Past(), midnight + 2 * DAY
    past.add([*node_series("a", "A100", gpus=8), *node_series("h", "H800", gpus=8)], midnight - DAY, end)
    past.add(node_series("cpu-only"), midnight - DAY, end)
    # an HP job that waited for half an hour and ran for two hours, less seven seconds; seen by two kube-state-metrics
    for instance in ("ksm-0", "ksm-1"):
        options = {"gpus": 4, "cls": "prod", "owner": "train", "after": "Succeeded", "instance": instance}
        begin = midnight + HOUR
        life(past, "lab", "train-x", begin, begin + HOUR // 2, begin + 5 * HOUR // 2, **options)  # type: ignore[arg-type]
    # a spot job: evicted after an hour (its pod is gone), created again, succeeded in three hours
    options = {"gpus": 2, "cls": "batch-low", "owner": "scan"}
    life(past, "shop", "scan-1", midnight + 2 * HOUR, midnight + 2 * HOUR, midnight + 3 * HOUR, **options)  # type: ignore[arg-type]
    begin = midnight + 3 * HOUR
    life(past, "shop", "scan-2", begin, begin + HOUR, begin + 4 * HOUR, after="Succeeded", **options)  # type: ignore[arg-type]
    # a server of the day before that still runs
    life(past, "web", "old", midnight - DAY, midnight - DAY, end, gpus=1, cls="prod", node="h")
    # a gang of two pods, which the label names, of an organization which the namespace's label names
    group = {"label_scheduling_x_k8s_io_pod_group": "pair"}
    for pod in ("pair-0", "pair-1"):
        begin = midnight + 10 * HOUR
        options = {"gpus": 3, "cls": "prod", "labels": group, "after": "Failed", "node": "h"}
        life(past, "deep", pod, begin, begin, begin + HOUR, **options)  # type: ignore[arg-type]
    label = {"namespace": "deep", "label_gfs_dev_organization": "Deep Lab"}
    past.add([("kube_namespace_labels", label, 1.0)], midnight, end)
    # nobody to count: one that asked for no GPU, one that never ran, one that was over before
    past.add(pod_series("web", "page", gpus=0, node="a", cls="prod"), midnight, midnight + HOUR)
    past.add(pod_series("web", "waits", gpus=8, cls="prod", phase="Pending"), midnight, midnight + HOUR)
    life(past, "web", "before", midnight - 5 * HOUR, midnight - 5 * HOUR, midnight - 2 * HOUR, gpus=2, cls="prod")
    return past


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


EXPECTED = {
    # name: organization, model, class, pods, GPUs a pod, submitted, lasted
    "lab/train": ("lab", "A100", "HP", 1, 4, 3600, 7200 - 7),
    "shop/scan": ("shop", "A100", "Spot", 1, 2, 7200, 3 * 3600 - 7),
    "deep/pair": ("Deep Lab", "H800", "HP", 2, 3, 36000, 3600 - 7),
    "web/old": ("web", "H800", "HP", 1, 1, 0, 2 * 86400),
}


def test_pods_become_tasks_and_their_demand_a_series(tmp_path: Path, midnight: int) -> None:
    when = ("--start", clock(midnight), "--end", clock(midnight + 2 * DAY))
    with serving(a_past(midnight), tmp_path) as url:
        told = convert(url, tmp_path / "trace", *when, "--demand", str(tmp_path / "demand.csv"))
    assert told.exit_code == 0, told.output
    trace = read_trace(tmp_path / "trace" / "jobs.csv", tmp_path / "trace" / "nodes.csv").workload
    found = {
        task.name: (
            task.organization,
            task.gpu_model,
            task.priority.label,
            task.pods,
            task.gpus_per_pod,
            task.submit_time,
            trace.durations[task.index],
        )
        for task in trace.tasks
    }
    assert found == EXPECTED, told.output
    assert {task.cpus_per_pod for task in trace.tasks} == {16}
    assert [(node.name, node.gpu_model, node.gpus, node.cpus) for node in trace.nodes] == [
        ("a", "A100", 8, 64),
        ("h", "H800", 8, 64),
    ]
    for sentence in (
        "guessed: class by priority class: spot: batch-low; HP: prod.",
        "guessed: pods that were there before the range began",
        "guessed: tasks that ran several times last as long as their last run",
        "guessed: tasks that still run last as long as they have run so far",
        "guessed: pods without a time of completion ended when last seen as running (to 60 s)",
        "left out: 1 (never ran)",
        f"second 0 is {clock(midnight)[:10]} 00:00 UTC",
        "3 series of HP demand, 48 hours",
    ):
        assert sentence in told.output, told.output
    history = read_demand(tmp_path / "demand.csv").history
    assert str(history.first_day) == clock(midnight)[:10]
    hourly = {str(key): row.tolist() for key, row in zip(history.keys, history.gpus, strict=True)}
    # wanted from 1:00, when it was submitted, to 3:30
    assert hourly["lab on A100"][:6] == [0, 4, 4, 4, 0, 0]
    assert hourly["Deep Lab on H800"][9:13] == [0, 6, 0, 0]
    assert hourly["web on H800"] == [1.0] * 48


class Recorded(Past):
    """The past that a file holds."""

    def write(self, file: Path) -> None:
        shutil.copy(SAMPLE, file)


def test_the_sample_of_the_guide(tmp_path: Path) -> None:
    with serving(Recorded(), tmp_path) as url:
        told = convert(url, tmp_path / "trace", "--start", "2026-05-04T08:00Z", "--end", "2026-05-04T10:00Z")
    assert told.exit_code == 0, told.output
    found = {
        row["job_name"]: (row["job_type"], float(row["duration"])) for row in rows(tmp_path / "trace" / "jobs.csv")
    }
    # 15 steps of four minutes, and 14 for the second run: each began after 20 seconds and ended seven before the next
    assert found == {"vision/train": ("HP", 15 * 240 - 27), "language/scan": ("Spot", 14 * 240 - 27)}


def test_a_server_that_takes_only_small_questions_is_asked_in_smaller_pieces(tmp_path: Path, midnight: int) -> None:
    when = ("--start", clock(midnight), "--end", clock(midnight + 2 * DAY))
    with serving(a_past(midnight), tmp_path, None, "--query.max-samples=4000") as url:
        told = convert(url, tmp_path / "trace", *when)
    assert told.exit_code == 0, told.output
    found = {row["job_name"]: float(row["duration"]) for row in rows(tmp_path / "trace" / "jobs.csv")}
    assert found == {name: values[-1] for name, values in EXPECTED.items()}
    (tmp_path / "again").mkdir()
    with serving(a_past(midnight), tmp_path / "again", None, "--query.max-samples=5") as url:
        refused = convert(url, tmp_path / "other", *when)
    assert refused.exit_code == 2
    assert "HTTP 422, query processing would load too many samples" in refused.output
    assert not (tmp_path / "other").exists()


def test_without_labels_all_gpus_are_of_one_model(tmp_path: Path, midnight: int) -> None:
    past = Past()
    past.add(node_series("a", gpus=8), midnight, midnight + HOUR)
    life(past, "lab", "p", midnight, midnight, midnight + HOUR // 2, gpus=1, cls="", after="Succeeded")
    with serving(past, tmp_path) as url:
        words = ("--start", clock(midnight), "--end", clock(midnight + DAY), "--demand", str(tmp_path / "demand.csv"))
        told = convert(url, tmp_path / "trace", *words)
    assert told.exit_code == 0, told.output
    assert len(rows(tmp_path / "demand.csv")) == 1, "what came after the records is not known"
    assert [row["gpu_model"] for row in rows(tmp_path / "trace" / "nodes.csv")] == ["gpu"]
    assert "guessed: all GPUs are of one model, called gpu: label nvidia.com/gpu.product" in told.output
    assert "of the 24.0 h asked for, 1.0 h are recorded" in told.output
    assert "no job is spot; HP: (no class)" in told.output


def test_what_is_missing_is_named(tmp_path: Path, midnight: int) -> None:
    when = ("--start", clock(midnight), "--end", clock(midnight + DAY))
    past = Past()
    past.add(node_series("a", "A100", gpus=8), midnight, midnight + HOUR)
    past.add(pod_series("lab", "p", gpus=1, phase="Pending"), midnight, midnight + HOUR)
    other = tmp_path / "amd.toml"
    other.write_text("[live]\nresource = 'amd.com/gpu'\n")
    out = tmp_path / "trace"
    with serving(past, tmp_path) as url:
        amd = convert(url, out, *when, "--config", str(other))
        early = convert(url, out, "--start", "2020-01-01", "--end", "2020-01-03")
        elsewhere = convert(f"{url}/graph", out, *when)
        never = convert(url, out, *when)
        past_range = convert(url, out, "--start", "2020-01-03", "--end", "2020-01-01")
    assert "no pod asked for amd.com/gpu" in amd.output
    assert "Nodes have cpu, nvidia_com_gpu" in amd.output
    assert "it has no series kube_pod_info between 2020-01-01 00:00 UTC and 2020-01-03" in early.output
    assert "not an answer of Prometheus" in elsewhere.output
    assert "there is no job with GPUs in it. Left out: 1 (never ran)" in never.output
    assert "--start must be before --end" in past_range.output
    assert {told.exit_code for told in (amd, early, elsewhere, never, past_range)} == {2}
    assert not out.exists()


def test_a_cluster_whose_nodes_are_not_recorded_is_told(tmp_path: Path, midnight: int) -> None:
    past = Past()
    past.add([each for each in node_series("a", "A100", gpus=8) if each[0] != "kube_node_info"], midnight, midnight + 6)
    past.add(pod_series("lab", "p", gpus=1, node="a"), midnight, midnight + HOUR)
    with serving(past, tmp_path) as url:
        told = convert(url, tmp_path / "trace", "--start", clock(midnight), "--end", clock(midnight + DAY))
    assert told.exit_code == 2
    assert "it has no series kube_node_info between" in told.output


def test_a_question_that_the_server_does_not_understand_is_told(tmp_path: Path, midnight: int) -> None:
    """Nobody's priority class has a quotation mark in it; a slip in a config may have."""
    past = Past()
    past.add(node_series("a", "A100", gpus=8), midnight, midnight + HOUR)
    past.add(pod_series("lab", "p", gpus=1, node="a"), midnight, midnight + HOUR)
    (tmp_path / "gfs.toml").write_text("[live]\nhp_classes = ['a\"b']\n")
    words = ("--start", clock(midnight), "--end", clock(midnight + DAY), "--demand", str(tmp_path / "demand.csv"))
    with serving(past, tmp_path) as url:
        told = convert(url, tmp_path / "trace", *words, "--config", str(tmp_path / "gfs.toml"))
    assert told.exit_code == 2
    assert "HTTP 400, 1:" in told.output
    assert not (tmp_path / "trace").exists()


def test_labels_that_the_scrape_renamed_are_recognised(tmp_path: Path, midnight: int) -> None:
    past = Past()
    series = [(n, {f"exported_{k}" if k in ("pod", "namespace") else k: v for k, v in labels.items()}, x)
              for n, labels, x in pod_series("lab", "p", gpus=0, node="a")]  # fmt: skip
    past.add(series, midnight, midnight + HOUR)
    with serving(past, tmp_path) as url:
        told = convert(url, tmp_path / "trace", "--start", clock(midnight), "--end", clock(midnight + DAY))
    assert told.exit_code == 2
    assert "scraped without honor_labels: true" in told.output


def test_the_quota_follows_the_demand_that_prometheus_knows(tmp_path: Path) -> None:
    """Of 16 GPUs two organizations want 6 and, by day, 3 more, for eight days: 16 - 9 = 7 are left.

    The records go on for a step, which may end before the command asks.
    """
    now = int(time.time() // STEP)
    past, first = Past(), now - 8 * DAY
    past.add(node_series("a", "A100", gpus=16), first, now + 2)
    past.add(pod_series("lab", "p", gpus=6, node="a", cls="prod"), first, now + 2)
    past.add(pod_series("lab", "s", gpus=7, node="a", cls="batch-low"), first, now + 2)
    for day in range(8):
        begin = first + day * DAY
        past.add(pod_series("shop", f"day-{day}", gpus=3, node="a", cls="prod"), begin, begin + DAY // 2)
    with serving(past, tmp_path) as url:
        words = ["quota", "export", "--as", "slurm", "--prometheus", url, "--days", "8", "--model", "weekly-peak"]
        told = CliRunner().invoke(app, words)
        all_hp = CliRunner().invoke(app, [*words, "--spot", "nobody"])
        nothing = CliRunner().invoke(app, [*words, "--nodes", str(tmp_path / "nodes.csv")])
    assert told.exit_code == 0, told.output
    assert "A100: forecast peak 9 of 16 GPUs at " in told.output
    assert "guessed: class by priority class: spot: batch-low; HP: prod. Say it yourself with --spot" in told.stderr
    assert told.stdout.splitlines()[-1].endswith("GrpTRES=gres/gpu=7")
    assert all_hp.stdout.splitlines()[-1].endswith("GrpTRES=gres/gpu=0"), "16 - 9 - 7"
    assert (nothing.exit_code, "nodes.csv" in nothing.output) == (2, True)


def test_a_password_is_asked_for_and_never_told(tmp_path: Path, midnight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    when = ("--start", clock(midnight), "--end", clock(midnight + 2 * DAY))
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  reader: {BCRYPT}\n")
    config = f"--web.config.file={tmp_path}/web.yml"
    with serving(a_past(midnight), tmp_path, None, config) as url:
        unknown = convert(url, tmp_path / "a", *when)
        named = convert(url.replace("//", f"//reader:{PASSWORD}@"), tmp_path / "b", *when)
        basic = "cmVhZGVyOnMzY3JldC1vZi10aGUtcmVhZGVy"
        by_header = convert(url, tmp_path / "c", *when, "--header", f"Authorization: Basic {basic}")
        monkeypatch.setenv("GFS_PROMETHEUS_HEADERS", f"Authorization: Basic {basic}\nX-Scope-OrgID: gpu")
        by_environment = convert(url, tmp_path / "d", *when)
        monkeypatch.delenv("GFS_PROMETHEUS_HEADERS")
        (tmp_path / "token").write_text(f"{PASSWORD}\n")
        by_token = convert(url, tmp_path / "e", *when, "--token-file", str(tmp_path / "token"))
    assert "HTTP 401, it does not let us in. Give its bearer token" in unknown.output
    assert [told.exit_code for told in (named, by_header, by_environment)] == [0, 0, 0], named.output
    assert "HTTP 401" in by_token.output, "a bearer token is not this server's password"
    for told in (unknown, named, by_header, by_environment, by_token):
        assert PASSWORD not in told.output
        assert basic not in told.output
