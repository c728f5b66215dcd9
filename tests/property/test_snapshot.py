"""A state that is saved and loaded goes on as if nothing had happened; a file that cannot be read is kept.

The log of a run in which the scheduler was saved, thrown away and loaded at some instants must be the log of the
undisturbed run, byte for byte, whatever has been remembered until then: leases, reservations, fitted forecasters.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import sys
import tempfile
import threading
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow.csv
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from strategies import Case, among, cases
from traces import five_busy_days

from builders import hp, nodes, spot
from gfs import SCHEDULERS, NodeEvent, Parameters, Priority, Workload
from gfs.assembly.codec import pack, unpack
from gfs.assembly.run import guarantees_of, period_of
from gfs.assembly.schedulers import build_scheduler
from gfs.assembly.snapshot import FORMAT, VERSION, _digest, load_state, save_state
from gfs.core.events import Finished, Submitted, Tick
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.core.state import FACTS
from gfs.domain.errors import InputError
from gfs.domain.task import NodeFilter
from gfs.forecasting.history import SeriesKey
from gfs.forecasting.online import ForecastMemory
from gfs.simulator.engine import LEFT, Engine
from gfs.telemetry.event_log import EventLog

DAY = 86_400.0
every_scheduler = pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "state"


class Lived:
    """One simulated run, with a save, a fresh scheduler and a load wherever `stop` says so."""

    def __init__(
        self, work: Workload, name: str, parameters: Parameters, file: Path, stop: Callable[[float, int], bool]
    ) -> None:
        self.log, self.stops, self.instants, self.most = EventLog(work), 0, 0, 0
        period, guarantees = period_of(work, (None, None)), guarantees_of(work)

        def fresh() -> Scheduler:
            return build_scheduler(name, work.nodes, parameters, period=period, guarantees=guarantees)

        def after(now: float) -> None:
            self.instants += 1
            if not stop(now, self.instants):
                return
            self.stops += 1
            self.most = max(self.most, save_state(engine.scheduler, file, now=now, name=name))
            other = fresh()
            assert load_state(other, file, name=name).time == now
            swap(engine, other)

        engine = Engine(work, fresh(), self.log.record, rules=parameters.rules, tick=parameters.tick)
        engine.after_instant = after
        engine.run()
        self.scheduler = engine.scheduler
        sink = io.BytesIO()
        pyarrow.csv.write_csv(self.log.table(), sink)
        self.bytes = sink.getvalue()


def swap(engine: Engine, scheduler: Scheduler) -> None:
    """Let the engine go on with another scheduler, whose state was loaded from a snapshot of the present one."""
    runs = {index: run for pool in scheduler.pools.values() for index, run in pool.state.runs.items()}
    leaving = {(run.task.index, run.number): run for pool in scheduler.pools.values() for run in pool.state.leaving}
    entries = []
    for time, number, what, who in engine._heap:
        if isinstance(who, Run):
            run = leaving.get((who.task.index, who.number)) if what == LEFT else runs.get(who.task.index)
            if run is None or run.number != who.number:
                continue
            who = run
        entries.append((time, number, what, who))
    engine._heap[:] = sorted(entries, key=lambda entry: entry[:2])
    engine.scheduler = scheduler


def never(now: float, instant: int) -> bool:
    return False


# -- goes on as if nothing had happened ------------------------------------------------------------


@dataclass(frozen=True)
class Restarted:
    """A case, what happens to its nodes and tasks besides, and how often the scheduler is restarted."""

    case: Case
    often: int
    seed: int

    def stop(self) -> Callable[[float, int], bool]:
        random = Random(self.seed)
        return lambda now, instant: random.randrange(self.often) == 0


@st.composite
def restarted(draw: st.DrawFn) -> Restarted:
    case = draw(cases(max_tasks=25))
    names = [node.name for node in case.work.nodes]
    events, at = [], 0.0
    for _ in range(draw(st.integers(0, 4))):
        at += draw(among(10.0, 290.0, 600.0))
        node, down = draw(st.sampled_from(names)), draw(st.booleans())
        until = at + draw(among(20.0, 300.0, 1111.0))
        events += [
            NodeEvent(at, node, "fail" if down else "cordon"),
            NodeEvent(until, node, "repair" if down else "uncordon"),
        ]
    waits = st.sampled_from([float("inf"), float("inf"), 0.0, 35.0, 700.0])
    cancels = tuple(task.submit_time + draw(waits) for task in case.work.tasks)
    work = replace(case.work, node_events=tuple(sorted(events)), cancel_times=cancels)
    return Restarted(replace(case, work=work), draw(among(1, 2, 5)), draw(st.integers(0, 99)))


@every_scheduler
@settings(max_examples=6, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(tale=restarted())
def test_restarts_leave_no_trace_in_the_log(scheduler: str, file: Path, tale: Restarted) -> None:
    work, parameters = tale.case.work, Parameters(**tale.case.parameters)
    undisturbed = Lived(work, scheduler, parameters, file, never)
    lived = Lived(work, scheduler, parameters, file, tale.stop())
    assert lived.bytes == undisturbed.bytes
    if tale.often == 1:
        assert lived.stops == undisturbed.instants


def busy_days(days: int, every: int) -> Workload:
    """Some tasks of a busy cluster over days, on nodes that fail and are repaired."""
    work = five_busy_days()
    tasks = [task for task in work.tasks if task.submit_time < days * DAY]
    work = work.with_tasks(task for task in tasks if task.index % every == 0)
    down = [NodeEvent(at * 3600.0 + 7, work.nodes[at % 3].name, "fail") for at in range(5, 24 * days, 17)]
    up = [event._replace(time=event.time + 5000, event="repair") for event in down]
    return replace(work, node_events=tuple(sorted(down + up)))


LOOPS = [
    ("gfs", "forecast", "orglinear"),
    ("gfs", "forecast", "orgquantile"),
    ("gfs-p", "weekly-peak", ""),
    ("gfs-plus", "adaptive", ""),
    ("chronus", "forecast-no-feedback", "seasonal-24"),
    ("fgd", "forecast-no-feedback", "persistence"),
    ("static", "fixed", ""),
    ("lyra", "weekly-peak", ""),
    ("lyra", "none", ""),
]


@pytest.mark.parametrize(("scheduler", "quota", "forecaster"), LOOPS)
def test_what_was_learnt_is_kept(scheduler: str, quota: str, forecaster: str, tmp_path: Path) -> None:
    work = busy_days(3, every=4)
    numbers: dict[str, Any] = {
        "quota": quota,
        "history_hours": 8.0,
        "retrain_hours": 12.0,
        "starvation_timeout": 7200.0,
    }
    parameters = Parameters(**numbers, **({"forecaster": forecaster} if forecaster else {}))
    undisturbed = Lived(work, scheduler, parameters, tmp_path / "state", never)
    often = max(undisturbed.instants // 12, 1)
    lived = Lived(work, scheduler, parameters, tmp_path / "state", lambda now, instant: instant % often == 0)
    assert lived.stops >= 10
    assert lived.bytes == undisturbed.bytes
    for pool in lived.scheduler.pools.values():
        if ForecastMemory in pool.state.memory:
            assert pool.state.memory[ForecastMemory].fitted is not None, "nothing was learnt: the trace is too short"


@pytest.mark.parametrize("forecaster", ["orglinear", "orgquantile"])
def test_what_several_pools_learnt_together_is_kept(forecaster: str, tmp_path: Path) -> None:
    """Every third node and task is of another model; the pools are fitted together, every 12 hours."""
    work = busy_days(4, every=3)
    other = [replace(node, gpu_model="H20") if node.index % 3 == 0 else node for node in work.nodes]
    tasks = [replace(task, gpu_model="H20") if task.index % 3 == 0 and task.gpus <= 16 else task for task in work.tasks]
    work = replace(work, nodes=tuple(other), tasks=tuple(tasks))
    parameters = Parameters(quota="forecast", forecaster=forecaster, history_hours=8.0, retrain_hours=12.0)
    undisturbed = Lived(work, "gfs", parameters, tmp_path / "state", never)
    often = max(undisturbed.instants // 12, 1)
    lived = Lived(work, "gfs", parameters, tmp_path / "state", lambda now, instant: instant % often == 0)
    assert lived.stops >= 10
    assert lived.bytes == undisturbed.bytes
    memories = [pool.state.memory[ForecastMemory] for pool in lived.scheduler.pools.values()]
    assert len(memories) == 2
    assert memories[0].fitted_at == memories[1].fitted_at
    assert memories[0].fitted is not None


# -- the file --------------------------------------------------------------------------------------


def busy(name: str = "gfs") -> Scheduler:
    """A scheduler with something to lose."""
    scheduler = build_scheduler(name, nodes(4, 4), Parameters(quota="none"), period=7200.0)
    drafts = [spot("s1", gpus=4), spot("s2", gpus=2, pods=2), hp("h1", gpus=4), hp("h2", gpus=4, pods=2)]
    scheduler.handle(0.0, [Submitted(draft.task(i)) for i, draft in enumerate(drafts)])
    return scheduler


def facts(scheduler: Scheduler) -> Any:
    """Of a pool, who runs where and who waits."""
    return {
        model: (
            [(run.task.name, run.number, [(n.name, m) for n, m, _ in run.places]) for run in pool.state.runs.values()],
            [(each.task.name, each.number, each.since) for each in pool.state.waiting.values()],
        )
        for model, pool in scheduler.pools.items()
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "gfs.state"
    save_state(busy(), path, now=5.0, name="gfs")
    return path


def test_a_file_that_is_no_longer_ours_stays_as_it_is(saved: Path) -> None:
    content = saved.read_bytes()
    save_state(busy(), saved, now=9.0, name="gfs", still=lambda: False)
    assert saved.read_bytes() == content
    assert list(saved.parent.iterdir()) == [saved]


def refused(path: Path, name: str = "gfs", **more: Any) -> str:
    """What is said when a file is not taken; nothing has changed by that, neither here nor there."""
    scheduler = busy(name)
    before, content = facts(scheduler), path.read_bytes()
    with pytest.raises(InputError) as error:
        load_state(scheduler, path, name=name, **more)
    assert facts(scheduler) == before
    assert path.read_bytes() == content
    return str(error.value)


def says_what_to_do(words: str, path: Path) -> None:
    assert words.startswith(f"{path}: ")
    assert "left as it is" in words
    assert "name another file, or move it away" in words


def put_aside(path: Path) -> bytes:
    """What is kept of a file that could not be read, once a state is saved to its name."""
    save_state(busy(), path, now=9.0, name="gfs")
    fresh = busy()
    assert load_state(fresh, path, name="gfs").time == 9.0
    (kept,) = path.parent.glob(f"{path.name}.kept-*")
    return kept.read_bytes()


def test_a_state_comes_back_as_it_was(saved: Path) -> None:
    other = build_scheduler("gfs", nodes(4, 4), Parameters(quota="none"), period=7200.0)
    assert load_state(other, saved, name="gfs").time == 5.0
    assert facts(other) == facts(busy())
    assert sorted(path.name for path in saved.parent.iterdir()) == ["gfs.state"]


@every_scheduler
def test_a_state_comes_back_where_no_node_is_known_yet(scheduler: str, tmp_path: Path) -> None:
    """As a live controller begins."""
    save_state(busy(scheduler), tmp_path / "state", now=5.0, name=scheduler)
    other = build_scheduler(scheduler, (), Parameters(quota="none"), period=7200.0)
    load_state(other, tmp_path / "state", name=scheduler)
    assert facts(other) == facts(busy(scheduler))


def test_saving_again_puts_nothing_aside(saved: Path) -> None:
    save_state(busy(), saved, now=6.0, name="gfs")
    assert [path.name for path in saved.parent.iterdir()] == ["gfs.state"]
    assert load_state(busy(), saved, name="gfs").time == 6.0


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(saved: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved.read_bytes()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "write":
        opened = Path.open

        def open_full(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if "w" not in mode:
                return opened(path, mode, *args, **kwargs)
            handle = opened(path, mode, *args, **kwargs)
            handle.write(b"half of a sta")
            handle.close()
            return full()

        monkeypatch.setattr(Path, "open", open_full)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        save_state(busy(), saved, now=7.0, name="gfs")
    monkeypatch.undo()
    assert saved.read_bytes() == content
    assert [path.name for path in saved.parent.iterdir()] == ["gfs.state"]
    assert load_state(busy(), saved, name="gfs").time == 5.0


def test_a_crash_while_writing_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved.read_bytes()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        save_state(busy(), saved, now=7.0, name="gfs")
    assert saved.read_bytes() == content


def test_no_file_is_no_mystery(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    with pytest.raises(InputError, match="no such file") as error:
        load_state(busy(), path, name="gfs")
    assert str(path) in str(error.value)


def rewritten(path: Path, **changes: Any) -> None:
    """The same file with another header."""
    line, _, payload = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(line), **changes}).encode() + b"\n" + payload)


def test_another_version_is_refused_and_kept(saved: Path) -> None:
    rewritten(saved, version=VERSION + 1, written_by="99.0")
    words, content = refused(saved), saved.read_bytes()
    says_what_to_do(words, saved)
    assert f"saved in format {VERSION + 1} by GFS 99.0; this GFS reads format {VERSION}" in words
    assert put_aside(saved) == content


@pytest.mark.parametrize("position", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_a_flipped_byte_is_noticed(saved: Path, position: float) -> None:
    content = bytearray(saved.read_bytes())
    start = content.index(b"\n") + 1
    content[start + round(position * (len(content) - start - 1))] ^= 0x10
    saved.write_bytes(content)
    words = refused(saved)
    says_what_to_do(words, saved)
    assert "damaged" in words
    assert put_aside(saved) == bytes(content)


@pytest.mark.parametrize("left", [0.0, 0.1, 0.9])
def test_a_file_cut_short_is_noticed(saved: Path, left: float) -> None:
    content = saved.read_bytes()
    start = content.index(b"\n") + 1
    content = content[: start + round(left * (len(content) - start))]
    saved.write_bytes(content)
    words = refused(saved)
    says_what_to_do(words, saved)
    assert "damaged" in words
    assert put_aside(saved) == content


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b"{}\n", b'{"format": "other"}\n', b"\x80\x05N.", b"[1]"])
def test_a_file_of_somebody_else_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    words = refused(path)
    says_what_to_do(words, path)
    assert "no saved state of GFS" in words
    assert put_aside(path) == content


@pytest.mark.parametrize(
    "changes", [{"bytes": "many"}, {"sha256": 3}, {"version": [1]}, {"time": "noon"}, {"time": None}]
)
def test_a_header_with_odd_values_is_refused(saved: Path, changes: dict[str, Any]) -> None:
    rewritten(saved, **changes)
    says_what_to_do(refused(saved), saved)


@pytest.mark.parametrize("changes", [{"time": 9999.0}, {"scheduler": "lyra"}, {"written_by": "me"}])
def test_a_header_that_was_edited_is_noticed(saved: Path, changes: dict[str, Any]) -> None:
    rewritten(saved, **changes)
    assert "damaged" in refused(saved)


def test_facts_that_make_no_sense_change_nothing(tmp_path: Path) -> None:
    """Two pools, of which only the second cannot be taken over: the first is as it was, too."""
    path, scheduler = tmp_path / "state", busy()
    facts = scheduler.facts()
    broken = {**facts["A100"], "runs": None}
    crafted(path, pack({"pools": {"A100": facts["A100"], "H20": broken}, "beside": None})[0])
    fresh = busy()
    before = fresh.pools["A100"].state
    with pytest.raises(InputError, match="does not fit this scheduler") as error:
        load_state(fresh, path)
    says_what_to_do(str(error.value), path)
    assert fresh.pools["A100"].state is before
    assert set(fresh.pools) == {"A100"}


def test_what_the_driver_saves_with_a_state_comes_back(tmp_path: Path) -> None:
    names = {f"lab/train/{i}": {"submitted": 1.5 * i, "runs": 2, "place": "pods of lab"} for i in range(300)}
    save_state(busy(), tmp_path / "state", now=3.0, beside=names)
    assert load_state(busy(), tmp_path / "state") == (3.0, names)


def test_two_files_put_aside_are_both_kept(saved: Path) -> None:
    for number in range(3):
        saved.write_bytes(b"notes %d" % number)
        save_state(busy(), saved, now=9.0, name="gfs")
    kept = sorted(path.read_bytes() for path in saved.parent.glob("gfs.state.kept-*"))
    assert kept == [b"notes 0", b"notes 1", b"notes 2"]


def test_the_state_of_another_scheduler_is_refused(saved: Path) -> None:
    words = refused(saved, name="lyra")
    says_what_to_do(words, saved)
    assert "is the state of scheduler 'gfs', not of 'lyra'" in words
    content = saved.read_bytes()
    save_state(busy("lyra"), saved, now=9.0, name="lyra")
    assert load_state(busy("lyra"), saved, name="lyra").time == 9.0
    (kept,) = saved.parent.glob("gfs.state.kept-*")
    assert kept.read_bytes() == content


# -- what a state may hold -------------------------------------------------------------------------


def crafted(path: Path, content: bytes) -> None:
    """A file with all the right words around this content."""
    payload = zlib.compress(content)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": "1",
        "scheduler": "gfs",
        "time": 0.0,
        "pools": ["A100"],
        "bytes": len(payload),
    }
    signed = {**header, "sha256": _digest(header, payload)}
    path.write_bytes(json.dumps(signed).encode() + b"\n" + payload)


def naming(module: str, name: str, fields: list[str], row: list[Any]) -> bytes:
    """Content that asks for an object of this class, or whatever it is, made of these fields."""
    table = {"class": f"{module}:{name}", "fields": fields, "rows": [row]}
    return msgspec.msgpack.encode({"content": {name: 0}, "tables": {name: table}})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("subprocess", "getoutput"),
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "getattr"),
        ("gfs.files", "os.system"),  # a known package that has imported another one
        ("gfs.assembly.snapshot", "json.loads"),
        ("gfs.core.state", "is_dataclass"),  # of a known package, but not a class
        ("gfs.core.state", "Struct"),  # of a known package that has imported it
        ("gfs.core.pool", "Pool"),  # a class of a known package that is no data
        ("gfs.live.record_files", "RecordFiles"),
        ("gfs.files", "os.path.os.system"),
        ("gfs.files", "write_text"),  # of a known package, but not an object of a state
        ("random", "_os.system"),
        ("collections", "_sys.exit"),
        ("numpy", "load"),
        ("numpy", "os.system"),
        ("numpy.f2py.diagnose", "run_command"),
    ],
)
def test_a_state_is_data_and_no_program(tmp_path: Path, module: str, name: str) -> None:
    path, trace = tmp_path / "state", tmp_path / "trace"
    for fields in ([], ["command"], ["path", "text"]):
        crafted(path, naming(module, name, fields, [f"touch {trace}"][: len(fields)] + [""] * (len(fields) - 1)))
        says_what_to_do(refused(path), path)
    assert not trace.exists()


@dataclass
class Mine:
    """What a part of somebody else's remembers."""

    count: int = 0
    liked: Any = None
    tail: deque[float] = field(default_factory=deque)
    drawn: Random = field(default_factory=lambda: Random(3))
    levels: Any = None


@dataclass
class Model:
    """A fitted model of a package that nobody has named."""

    weight: float = 1.5


@dataclass
class Renamed:
    """`Mine` of another release."""

    counted: int
    liked: Any = None


def remembering(mine: Mine) -> Scheduler:
    """A scheduler with a part of somebody else's."""
    scheduler = busy()
    scheduler.pools["A100"].state.memory[Mine] = mine
    return scheduler


def test_what_parts_remember_comes_back_field_by_field(saved: Path) -> None:
    values = {
        "priority": Priority.SPOT,
        "numbers": (1, -5, 1 << 200, 0.1, math.inf, -0.0, None, True),
        "containers": [{1: "a", None: b"b"}, {3, 4}, frozenset({5}), Counter("aab"), OrderedDict(x=1), deque([1], 7)],
        "times": [date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), timedelta(days=-1, microseconds=3)],
        "third": Fraction(1, 3),
        "key": SeriesKey("lab", "A100"),
    }
    random = Random(7)
    random.random()
    arrays = [np.arange(6.0).reshape(2, 3).T, np.float32(0.1), np.array(["a", "bc"]), np.zeros((0, 4), bool)]
    save_state(remembering(Mine(3, values, deque([1.0]), random, arrays)), saved, now=1.0, name="gfs")
    again = remembering(Mine())
    load_state(again, saved, name="gfs")
    mine = again.pools["A100"].state.memory[Mine]
    assert (mine.count, mine.liked, mine.tail) == (3, values, deque([1.0]))
    assert mine.liked["containers"][-1].maxlen == 7
    assert [type(each) for each in mine.liked["containers"]] == [type(each) for each in values["containers"]]
    assert mine.liked["priority"] is Priority.SPOT
    assert math.copysign(1, mine.liked["numbers"][5]) == -1
    assert mine.drawn.random() == random.random()
    for one, other in zip(mine.levels, arrays, strict=True):
        assert type(one) is type(other)
        assert (one.dtype, one.shape, one.tolist()) == (other.dtype, other.shape, other.tolist())
    assert mine.levels[0].flags.f_contiguous, "sums depend on the order in memory"


def test_what_two_parts_share_is_shared_again(saved: Path) -> None:
    scheduler = busy()
    state = scheduler.pools["A100"].state
    run, waiting = next(iter(state.runs.values())), next(iter(state.waiting.values()))
    state.memory[Mine] = Mine(liked=(run, waiting.task, state.nodes[0], run))
    save_state(scheduler, saved, now=1.0, name="gfs")
    again = remembering(Mine())
    load_state(again, saved, name="gfs")
    state = again.pools["A100"].state
    run, task, node, same = state.memory[Mine].liked
    assert run is same is state.runs[run.task.index]
    assert task is state.waiting[task.index].task
    assert node is state.nodes[0]


@pytest.mark.parametrize("unsavable", [lambda: 1, threading.Lock(), object(), Model(), np.array([object()]), Model])
def test_a_model_that_is_no_data_is_left_out_and_said(
    saved: Path, unsavable: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Model, "__module__", "somebody.models")
    save_state(remembering(Mine(3, [unsavable])), saved, now=1.0, name="gfs")
    assert "left out, and learnt again after a restart: liked of Mine: " in caplog.text
    again = remembering(Mine(7))
    load_state(again, saved, name="gfs")
    assert again.pools["A100"].state.memory[Mine] == Mine(3, None, drawn=again.pools["A100"].state.memory[Mine].drawn)


def test_a_network_is_fitted_again_after_a_restart(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fresh() -> Scheduler:
        return build_scheduler("gfs", nodes(4, 4), Parameters(history_hours=1.0, retrain_hours=12.0), period=7200.0)

    scheduler = fresh()
    scheduler.handle(0.0, [Submitted(hp("h", gpus=4).task(0))])
    for tick in range(40):
        scheduler.handle(tick * 300.0, [Tick()])
    memory = scheduler.pools["A100"].state.memory[ForecastMemory]
    assert memory.fitted is not None
    memory.fitted, memory.fitted_at = threading.Lock(), 11_000.0  # stands for a network of torch
    save_state(scheduler, saved, now=12_000.0, name="gfs")
    assert "fitted of ForecastMemory: an object of _thread.lock" in caplog.text
    again = fresh()
    load_state(again, saved, name="gfs")
    memory = again.pools["A100"].state.memory[ForecastMemory]
    assert (memory.fitted, memory.fitted_at) == (None, 11_000.0)
    for tick in range(40, 53):
        again.handle(tick * 300.0, [Tick()])
    assert memory.fitted is not None, "an hour after the last fit"


def test_trees_of_lightgbm_are_saved_in_their_own_text(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lightgbm` need not be installed here: what is asked of it is one method and one argument."""

    class Booster:
        def __init__(self, model_str: str) -> None:
            self.text = model_str

        def model_to_string(self) -> str:
            return self.text

    Booster.__module__, Booster.__qualname__ = "lightgbm.basic", "Booster"
    monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace(Booster=Booster))
    content, left_out = pack([Booster("tree 1"), Booster("tree 2")])
    assert not left_out
    assert [each.text for each in unpack(content)] == ["tree 1", "tree 2"]


def test_a_task_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    """A task without its node filter would go to any node."""

    class Odd(frozenset[str]):
        """A set of one's own."""

    scheduler = busy()
    task = replace(hp("h", gpus=4).task(9), node_filter=NodeFilter(Odd({"a"})))
    scheduler.handle(1.0, [Submitted(task)])
    with pytest.raises(InputError, match=r"the state cannot be saved: it holds an object of .*Odd"):
        save_state(scheduler, tmp_path / "state", now=1.0)
    assert not (tmp_path / "state").exists()


def test_a_class_that_no_part_of_the_scheduler_remembers_is_refused(saved: Path) -> None:
    save_state(remembering(Mine()), saved, now=1.0, name="gfs")
    words = refused(saved)
    says_what_to_do(words, saved)
    assert f"{Mine.__module__}.Mine, which has no place in a state" in words


def test_packages_of_plug_ins_are_trusted_by_name(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "models.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Model:\n    weight: float = 1.5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import somebody.models  # type: ignore[import-not-found]

    scheduler = remembering(Mine(liked=somebody.models.Model(2.5)))
    save_state(scheduler, saved, now=1.0, name="gfs", trusted=("somebody",))
    again = remembering(Mine())
    with pytest.raises(InputError, match=r"somebody\.models\.Model"):
        load_state(again, saved, name="gfs")
    assert load_state(again, saved, name="gfs", trusted=("somebody",)).time == 1.0
    assert again.pools["A100"].state.memory[Mine].liked.weight == 2.5


def test_a_field_that_a_class_does_not_have_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(remembering(Mine(3)), saved, now=1.0, name="gfs")
    monkeypatch.setitem(globals(), "Mine", Renamed)
    monkeypatch.setattr(Renamed, "__module__", __name__)
    again = busy()
    again.pools["A100"].state.memory[Renamed] = Renamed(1)
    with pytest.raises(InputError, match=r"\.Mine has a field 'count' that this GFS does not know") as error:
        load_state(again, saved, name="gfs")
    says_what_to_do(str(error.value), saved)


def test_a_field_that_a_file_does_not_have_gets_its_default_or_is_refused(saved: Path) -> None:
    packages = [__name__.partition(".")[0]]
    content, _ = pack(Mine(3, "x"), packages)
    written = msgspec.msgpack.decode(content)
    table = written["tables"]["Mine"]
    table["fields"], table["rows"] = table["fields"][:2], [row[:2] for row in table["rows"]]
    assert unpack(msgspec.msgpack.encode(written), packages).tail == deque()
    table["class"], table["fields"] = f"{__name__}:Renamed", ["liked", "liked"]
    with pytest.raises(TypeError, match=r"\.Renamed lacks the field 'counted'"):
        unpack(msgspec.msgpack.encode(written), packages)


def test_any_program_can_read_the_fields_of_a_state(saved: Path) -> None:
    line, _, payload = saved.read_bytes().partition(b"\n")
    assert json.loads(line)["pools"] == ["A100"]
    written = msgspec.msgpack.decode(zlib.decompress(payload))
    tasks = written["tables"]["Task"]
    rows = [dict(zip(tasks["fields"], row, strict=True)) for row in tasks["rows"]]
    assert {row["name"]: row["pods"] for row in rows} == {"s1": 1, "s2": 2, "h1": 1, "h2": 2}
    (pool,) = written["content"]["map"]["pools"]["map"].values()
    assert set(pool["map"]) == set(FACTS)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        ({"A100": None}, None),
        ({"A100": {"nodes": []}}, None),
        "facts",
        {"pools": {"A100": {"nodes": []}}, "beside": None},
    ],
)
def test_a_state_without_its_facts_is_refused(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "state"
    crafted(path, pack(content)[0])
    says_what_to_do(refused(path), path)


# -- size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["gfs", "gfs-plus", "chronus", "fgd"])
def test_the_size_of_a_state_has_a_bound(scheduler: str, tmp_path: Path) -> None:
    """What is saved grows with what there is, not with what there was.

    Before compression a task takes at most 300 bytes (its 15 numbers and short texts, pickled as an object of
    slots), a run or a waiting task that much again (places: 30 bytes for each of at most 8 pods), a node 100. An
    entry of the ledger (due, kept), of the waits, of the leases and of the eviction history is at most 50, and
    there are no more than two of each for a run that began in the last four hours, or was evicted in the last day.
    What is learnt of demand is one number of 8 bytes for every five minutes and organization. This trace never has
    more than 100 tasks running or waiting, 12 nodes and 16 rows of organizations: 100 x 600 + 12 x 100
    + 400 x 50 + 16 x 4096 x 8 bytes of mostly zeros, which compress to a hundredth: below 100,000 bytes in all.
    """
    work = busy_days(5, every=3)
    parameters = Parameters(quota="none" if scheduler == "chronus" else "weekly-peak", history_hours=200.0)
    lived = Lived(work, scheduler, parameters, tmp_path / "state", lambda now, instant: instant % 300 == 0)
    assert lived.stops > 5
    assert lived.most < 100_000
    last = save_state(lived.scheduler, tmp_path / "state", now=9e9)
    assert last < 40_000, "all is over, and nearly nothing is left to say"
    state = lived.scheduler
    assert sum(len(pool.state.runs) + len(pool.state.waiting) for pool in state.pools.values()) == 0


def test_nothing_of_the_past_is_kept_in_a_run() -> None:
    """A run knows the wait before it, and that wait knows no earlier run: no chain that grows with every stop."""
    scheduler = build_scheduler("gfs", nodes(4), Parameters(quota="none", grace_period=0.0), period=7200.0)
    victim = spot("s", gpus=4).task(0)
    scheduler.handle(0.0, [Submitted(victim)])
    sizes = []
    for turn in range(1, 40):
        now = turn * DAY
        task = replace(hp("h", gpus=4).task(turn), priority=Priority.HP)
        plan = scheduler.handle(now, [Submitted(task)])
        assert [eviction.run.task for eviction in plan.evictions] == [victim]
        (run,) = plan.starts
        scheduler.handle(now + 3600, [Finished(run), Tick()])
        sizes.append(len(pack(scheduler.pools["A100"].state.facts())[0]))
    assert max(sizes[10:]) < sizes[5] * 1.2
