"""Whatever is typed: exit code 0, or 2 with a message; never a traceback, never a file half-written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import gfs
from gfs import Parameters
from gfs.assembly.aliases import OPTIONS, PARAMETERS
from gfs.cli.main import app
from gfs.workloads import write_trace

TRACE = ["--jobs", "jobs.csv", "--nodes", "nodes.csv"]
NAMES = [*(item.name for item in Parameters.describe()), *PARAMETERS, "admission"]

NASTY = st.sampled_from(
    [
        *("", " ", "-", "--", "=", ",", ":", "nan", "inf", "-inf", "1e300", "1e400", "-1", "0", "1", "1e-9", "0x10"),
        *("true", "no", "None", "[]", "{}", "fixed", "forecast", "open-loop", "weekly-peak", "adaptive", "total", "on"),
        *("persistence", "CN", "2024-09-30", "9999-12-31", "0001-01-01", "\x1b[2J", "\u202e", "é", "%s", "{0}", "'"),
        *("9" * 400, "a" * 5000, "/", "..", "jobs.csv", "x/y.csv", "out.csv", "out.json", "out.html", "out.pdf"),
    ]
)
TEXT = st.one_of(NASTY, st.text(max_size=12), st.floats().map(str), st.integers().map(str))


@st.composite
def inside(draw: st.DrawFn) -> str:
    """A setting within its bounds, often at one of them."""
    item = draw(st.sampled_from([i for i in Parameters.describe() if isinstance(i.default, float)]))
    low, high = (float(text.replace(",", "")) for text in item.allowed.split(" to "))
    return f"{item.name}={draw(st.one_of(st.just(low), st.just(high), st.floats(low, high)))!r}"


SETTING = st.one_of(st.builds("{}={}".format, st.sampled_from(NAMES), TEXT), inside(), TEXT)
RUN_OPTION = st.one_of(
    SETTING.map(lambda text: ["--set", text]),
    TEXT.map(lambda text: ["--window", text]),
    st.tuples(TEXT, TEXT).map(lambda pair: ["--window", f"{pair[0]}:{pair[1]}"]),
    st.tuples(st.sampled_from(["--seed", "--json", "--config", "--node-events", "--jobs", "--nodes"]), TEXT).map(list),
    st.sampled_from([["--check"], ["--skip-bad-rows"], ["-h"], ["--json", "out.json"], ["--json", "-"]]),
)
SCHEDULER = st.one_of(st.sampled_from([*gfs.SCHEDULERS]), TEXT)
SIMULATE = st.one_of(
    RUN_OPTION,
    SCHEDULER.map(lambda name: ["--scheduler", name]),
    st.tuples(st.sampled_from(["--events", "--quota-log", *OPTIONS["simulate"]]), TEXT).map(list),
)
COMPARE = st.one_of(
    RUN_OPTION,
    st.lists(SCHEDULER, max_size=3).map(lambda names: ["--schedulers", ",".join(names)]),
    TEXT.map(lambda text: ["--html", text]),
)


@pytest.fixture(scope="module", autouse=True)
def wide_terminal() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        yield


def check(*words: str, files: dict[str, str] | None = None) -> None:
    """Run a command in a new folder with a small trace, and look at what it leaves."""
    with TemporaryDirectory() as name, chdir(name):
        write_trace(gfs.generate("demo", nodes=2, days=1 / 8, seed=1), ".")
        for file, text in (files or {}).items():
            Path(file).write_text(text, encoding="utf-8")
        before = {path.name: path.read_bytes() for path in Path().iterdir()}
        result = CliRunner().invoke(app, words)
        after = {path.name for path in Path().iterdir()}
        assert result.exception is None or isinstance(result.exception, SystemExit), (words, result.exc_info)
        assert result.exit_code in (0, 2), (words, result.output)
        assert "Traceback" not in result.output
        assert "\x1b[2J" not in result.stderr
        assert not [path for path in after if path.endswith(".part")]
        assert all(Path(file).read_bytes() == content for file, content in before.items()), "an input was overwritten"
        if result.exit_code == 2:
            assert "rror" in result.stderr, (words, result.output)
            assert after == set(before), (words, after - set(before))


@settings(max_examples=60)
@given(st.lists(SIMULATE, max_size=4))
@example([["--set", "tick=1e300"]])
@example([["--set", "grace_period=1e12"]])
@example([["--set", "restart_overhead=1e308"]])
@example([["--set", "country=XX"], ["--set", "first_day=9999-12-31"]])
@example([["--set", "country=CN"], ["--set", "first_day=0001-01-01"]])
def test_simulate(options: list[list[str]]) -> None:
    check("simulate", *TRACE, *(word for option in options for word in option))


@settings(max_examples=25)
@given(st.lists(COMPARE, max_size=3))
@example([["--front"]])
@example([["--front"], ["--noise", "nan"]])
@example([["--front"], ["--cache", "\0"]])
def test_compare(options: list[list[str]]) -> None:
    check("compare", "--workers", "1", *TRACE, *(word for option in options for word in option))


@settings(max_examples=40)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.builds("{} = {}".format, st.sampled_from(NAMES), TEXT), max_size=3).map("\n".join),
        st.lists(st.builds('{} = "{}"'.format, st.sampled_from(NAMES), TEXT), max_size=3).map("\n".join),
    )
)
@example("m = " + "[" * 100_000)
@example("m = " + "9" * 5000)
@example("parameters = 1")
def test_a_parameter_file(text: str) -> None:
    check("simulate", *TRACE, "--scheduler", "static", "--config", "p.toml", files={"p.toml": text})


@settings(max_examples=15)
@given(st.lists(st.one_of(TEXT.map(lambda text: ["--seed", text]), TEXT.map(lambda text: [text])), max_size=2))
@example([["--seed", "-1"]])
def test_demo_with_options_that_are_wrong(options: list[list[str]]) -> None:
    check("demo", "--out", "jobs.csv", *(word for option in options for word in option))
