"""Schedulers from outside: found by entry point when asked for, and their faults stay their own."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gfs
from builders import hp, nodes, spot, workload
from gfs.assembly import schedulers
from gfs.assembly.plugins import find_plugins
from gfs.assembly.schedulers import find_scheduler, list_schedulers
from gfs.batch.comparison import PackedScheduler, pack_scheduler, unpack_scheduler
from gfs.cli.main import app
from gfs.policies.placement import first_fit
from gfs.workloads import write_trace

GOOD = """
from gfs import SCHEDULERS
from dataclasses import replace

MINE = replace(SCHEDULERS["gfs"], name={name!r}, summary="mine")
"""

Offer = Callable[..., Path]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Puts distributions on the path as an installer would: a module and a folder of metadata each."""
    before = set(sys.modules)

    def add(name: str, *, of: str = "", module: str = GOOD, target: str = "MINE", folder: str = "site") -> Path:
        of = of or f"gfs-{name}"
        place = tmp_path / folder
        stem = re.sub(r"\W", "_", of)
        metadata = place / f"{stem}-1.2.dist-info"
        metadata.mkdir(parents=True)
        (place / f"{stem}.py").write_text(module.format(name=name))
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {of}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(f"[gfs.schedulers]\n{name} = {stem}:{target}\n")
        if str(place) not in sys.path:
            monkeypatch.syspath_prepend(place)
        return metadata

    yield add
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def refusal(scheduler: Any) -> str:
    with pytest.raises(gfs.InputError) as refused:
        find_scheduler(scheduler)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def listed(name: str) -> list[tuple[str, str]]:
    """(where from, what is wrong) of the schedulers with a name."""
    return [(entry.source, entry.problem) for entry in list_schedulers() if entry.name == name]


class TestFound:
    def test_by_its_name(self, offer: Offer) -> None:
        offer("mine")
        assert find_scheduler("mine").summary == "mine"
        assert gfs.schedulers()["mine"] is find_scheduler("mine")
        assert listed("mine") == [("gfs-mine 1.2", "")]

    def test_beside_the_built_in_ones_which_stay_what_they_are(self, offer: Offer) -> None:
        built_in = dict(gfs.SCHEDULERS)
        offer("mine")
        assert list(gfs.schedulers())[: len(built_in)] == list(built_in)
        assert built_in == gfs.SCHEDULERS

    def test_and_suggested(self, offer: Offer) -> None:
        offer("roomy")
        assert refusal("romy") == "unknown scheduler 'romy': did you mean roomy?"
        assert ", roomy" in refusal("qqqq")

    def test_in_a_simulation(self, offer: Offer) -> None:
        offer("mine")
        work = workload(nodes(4), [hp("h", gpus=2)])
        result = gfs.simulate(work, scheduler="mine", quota="fixed", check=True)
        assert (result.scheduler, result.quota_in_force) == ("mine", "fixed 35%")

    def test_not_before_it_is_asked_for(self, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
        offer("broken", module="raise RuntimeError('imported')")
        offer("mine")
        assert find_scheduler("mine").name == "mine"
        assert "gfs_broken" not in sys.modules
        monkeypatch.setattr(schedulers, "find_plugins", lambda: pytest.fail("looked for plug-ins"))
        assert find_scheduler("gfs") is gfs.SCHEDULERS["gfs"]

    def test_once_if_a_distribution_is_on_the_path_twice(self, offer: Offer) -> None:
        offer("mine", of="gfs_mine", folder="old")
        offer("mine", of="gfs-mine", folder="new")  # comes first on the path
        (plugin,) = [plugin for plugin in find_plugins() if plugin.name == "mine"]
        assert plugin.distribution == "gfs-mine 1.2"
        assert find_scheduler("mine").name == "mine"


class TestUnusable:
    @pytest.mark.parametrize(
        ("module", "cause"),
        [
            ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
            ("THEIRS = 1", "AttributeError: module 'gfs_mine' has no attribute 'MINE'"),
            ("raise OSError('no licence\\nfound')", "OSError: no licence found"),
            ("raise RuntimeError", "RuntimeError"),
            ("import sys; sys.exit(3)", "SystemExit: 3"),
            ("def", "SyntaxError: invalid syntax (gfs_mine.py, line 1)"),
            ("MINE = dict()", "an object of type dict is no scheduler definition: it lacks name, summary"),
            ("class MINE: pass", "MINE is a class: give an object of it"),
            (GOOD.replace("{name!r}", "'other'"), "it calls itself 'other': entry point and definition must have one"),
            (GOOD.replace('"mine"', "None"), "an object of type Composition is no scheduler definition: it lacks"),
            (GOOD.replace('"mine"', '"mine", quota="much"'), "its quota 'much' is unknown: choose one of "),
            (GOOD.replace("{name!r}", "'a,b'"), "its name 'a,b' cannot be typed in a list like gfs,static"),
        ],
    )  # fmt: skip
    def test_says_whose_it_is_and_why(self, offer: Offer, module: str, cause: str) -> None:
        offer("mine", module=module)
        whose = "scheduler 'mine' of gfs-mine 1.2 (entry point mine = gfs_mine:MINE) cannot be used: "
        assert refusal("mine").startswith(whose + cause)
        ((source, problem),) = listed("mine")
        assert source == "gfs-mine 1.2"
        assert problem.startswith(cause)
        assert "mine" not in gfs.schedulers()

    def test_a_built_in_name_stays_ours(self, offer: Offer) -> None:
        offer("gfs", of="gfs-better")
        assert find_scheduler("gfs") is gfs.schedulers()["gfs"] is gfs.SCHEDULERS["gfs"]
        assert listed("gfs") == [
            ("built in", ""),
            ("gfs-better 1.2", "the built-in scheduler of this name is used instead"),
        ]

    def test_two_of_one_name(self, offer: Offer) -> None:
        offer("mine", of="one")
        offer("mine", of="two")
        assert refusal("mine") == (
            "scheduler 'mine' is offered more than once: by one 1.2 (entry point mine = one:MINE)"
            " and two 1.2 (entry point mine = two:MINE); uninstall all but one"
        )
        assert listed("mine") == [
            ("one 1.2", "also offered by two 1.2 (entry point mine = two:MINE)"),
            ("two 1.2", "also offered by one 1.2 (entry point mine = one:MINE)"),
        ]
        assert "mine" not in gfs.schedulers()

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("entry_points.txt", b"[gfs.schedulers]\nno equals sign\n"),
            ("entry_points.txt", b"[gfs.schedulers]\nx = \xff\xfe\n"),
            ("METADATA", b""),
        ],
    )
    def test_metadata_that_cannot_be_read_disturbs_nobody(self, offer: Offer, file: str, content: bytes) -> None:
        (offer("other") / file).write_bytes(content)
        offer("mine")
        names = {plugin.name for plugin in find_plugins()}
        assert "mine" in names
        assert "other" not in names


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def trace(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "200")
        write_trace(workload(nodes(4), [hp("h", gpus=2), spot("s")]), ".")

    @pytest.mark.parametrize("words", ["simulate --scheduler mine", "compare --schedulers gfs,mine --workers 2"])
    def test_a_broken_plug_in_is_an_error_of_one_line(self, offer: Offer, words: str) -> None:
        offer("mine", module="1 / 0")
        result = CliRunner().invoke(app, [*words.split(), "--jobs", "jobs.csv", "--nodes", "nodes.csv"])
        assert result.exit_code == 2
        assert result.stderr == (
            "error: scheduler 'mine' of gfs-mine 1.2 (entry point mine = gfs_mine:MINE) cannot be used:"
            " ZeroDivisionError: division by zero\n"
        )

    def test_and_nobody_else_notices(self, offer: Offer) -> None:
        offer("mine", module="1 / 0")
        result = CliRunner().invoke(app, ["simulate", "--jobs", "jobs.csv", "--nodes", "nodes.csv"])
        assert result.exit_code == 0

    def test_the_list_says_what_there_is_and_what_cannot_be_used(self, offer: Offer) -> None:
        offer("mine")
        offer("broken", module="1 / 0")
        result = CliRunner().invoke(app, ["schedulers"])
        assert result.exit_code == 0
        rows = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()]
        assert rows[0] == ["scheduler", "quota", "from", "what it does"]
        assert ["mine", "forecast", "gfs-mine 1.2", "mine"] in rows
        assert ["broken", "-", "gfs-broken 1.2", "unusable: ZeroDivisionError: division by zero"] in rows
        ours = [[name, definition.quota, "built in"] for name, definition in gfs.SCHEDULERS.items()]
        assert all(row in [shown[:3] for shown in rows] for row in ours)


class TestGivenAsAnObject:
    mine = replace(gfs.SCHEDULERS["static"], name="mine", placer=lambda context: first_fit(context.pool))
    work = workload(nodes(4), [hp("h", gpus=2), spot("s")])

    def test_runs_under_its_own_name_and_quota(self) -> None:
        result = gfs.simulate(self.work, scheduler=self.mine)
        assert (result.scheduler, result.quota_in_force) == ("mine", "fixed 35%")
        assert [run.scheduler for run in gfs.compare(self.work, schedulers=["gfs", self.mine])] == ["gfs", "mine"]

    def test_counts_as_named_by_its_name(self) -> None:
        with pytest.raises(gfs.InputError, match="named twice in mine,mine"):
            gfs.compare(self.work, schedulers=[self.mine, replace(self.mine)])

    def test_may_not_pass_for_a_built_in_one(self) -> None:
        assert find_scheduler(gfs.SCHEDULERS["gfs"]) is gfs.SCHEDULERS["gfs"]
        assert refusal(replace(self.mine, name="gfs")) == "there is a built-in scheduler 'gfs': give yours another name"

    def test_must_be_a_definition(self) -> None:
        assert refusal(3).startswith("this scheduler cannot be used: an object of type int is no scheduler definition")
        assert refusal(gfs.Composition) == "this scheduler cannot be used: Composition is a class: give an object of it"

    def test_goes_to_a_worker_also_with_lambdas(self) -> None:
        results = gfs.compare(self.work, schedulers=["gfs", self.mine], workers=2)
        alone = gfs.simulate(self.work, scheduler=self.mine)
        assert [run.scheduler for run in results] == ["gfs", "mine"]
        assert list(results)[1].events.equals(alone.events)

    def test_goes_to_no_worker_if_it_cannot_be_pickled(self) -> None:
        lock = threading.Lock()
        mine = replace(self.mine, placer=lambda context: lock)
        with pytest.raises(gfs.InputError) as refused:
            gfs.compare(self.work, schedulers=["gfs", mine], workers=2)
        assert re.fullmatch(
            r"scheduler 'mine' cannot be handed to a process of its own \(\w+: .*\):"
            " put it into an installed module, without open files or locks in it, or set workers to 1",
            str(refused.value),
        )

    def test_a_worker_that_does_not_know_its_module_says_so(
        self, offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        portable = GOOD + "def f(): ...\nMINE = replace(MINE, queue=f, placer=f, preemptor=f)\n"
        offer("mine", module=portable, of="elsewhere")
        packed = PackedScheduler("mine", pickle.dumps(find_scheduler("mine")))
        assert unpack_scheduler(packed).name == "mine"
        del sys.modules["elsewhere"]
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if str(tmp_path) not in entry])
        with pytest.raises(gfs.InputError, match=r"own \(ModuleNotFoundError: No module named 'elsewhere'\): put"):
            unpack_scheduler(packed)

    def test_a_worker_finds_registered_ones_by_name(self, offer: Offer) -> None:
        offer("theirs")
        for name in ("gfs", "theirs"):
            assert pack_scheduler(gfs.schedulers()[name]) == (name, None)
