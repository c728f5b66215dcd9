"""The documentation is true: its Python runs, its commands and options exist, its links and tables are right."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import gfs
from gfs.cli.main import app
from gfs.workloads import write_trace

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in these languages."""
    return [body for language, body in FENCED.findall(text_of(name)) if language in languages]


def typed(name: str) -> list[str]:
    """Every `gfs ...` line of the shell blocks of a page; in a console block what follows the prompt."""
    lines = [line for block in blocks(name, "bash", "sh") for line in block.splitlines()]
    for block in blocks(name, "console"):
        lines += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if re.match(r"gfs( |$)", line)]


def mentioned(name: str) -> list[str]:
    """Every `gfs ...` command inside the sentences and tables of a page."""
    inline = re.findall(r"`(gfs [^`]+)`", FENCED.sub("", text_of(name)))
    return [command for command in inline if "..." not in command]


TYPED = [(name, command) for name in NAMES for command in typed(name)]
SHOWN = sorted({*TYPED, *((name, command) for name in NAMES for command in mentioned(name))})


# -- Python ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace with evictions: jobs.csv and nodes.csv."""
    folder = tmp_path_factory.mktemp("trace")
    write_trace(gfs.generate("demo", nodes=6, days=3, spot_scale=2, seed=1), folder)
    return folder


@pytest.mark.parametrize("name", [name for name in NAMES if blocks(name, "python")])
def test_the_python_of_a_page_runs_as_it_stands(
    name: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("jobs.csv", "nodes.csv"):
        (tmp_path / file).write_bytes((trace / file).read_bytes())
    if name == "docs/guides/check-a-run.md":  # it reads what the command above it writes
        words = ("simulate", "--jobs", "jobs.csv", "--nodes", "nodes.csv")
        written = CliRunner().invoke(app, [*words, "--events", "events.csv", "--json", "summary.json"])
        assert written.exit_code == 0, written.output
    names: dict[str, Any] = {"__name__": "docs"}
    for number, block in enumerate(blocks(name, "python"), 1):
        exec(compile(block, f"{name}, Python block {number}", "exec", dont_inherit=True), names)


def test_the_trace_of_these_tests_has_evictions(trace: Path) -> None:
    """Otherwise the examples would show less than they promise."""
    assert gfs.simulate(trace / "jobs.csv", trace / "nodes.csv").metrics.spot.evictions > 0


def test_the_readme_shows_the_python_api_in_five_lines() -> None:
    (block,) = blocks("README.md", "python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 5


@pytest.mark.parametrize("name", NAMES)
def test_python_blocks_are_valid(name: str) -> None:
    for block in blocks(name, "python"):
        ast.parse(block)


# -- commands ----------------------------------------------------------------------------------------------


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


IMPLIED = "sweep"
"""The group whose command `run` needs no name: `gfs sweep FILE`."""


def find_command(words: list[str]) -> tuple[str, Any, list[str]]:
    """The command that these words name, how it is called, and the words that are left."""
    command, path, left = root_command(), [], list(words)
    while left and (inner := getattr(command, "commands", {}).get(left[0])) is not None:
        command = inner
        path.append(left.pop(0))
    if command.name == IMPLIED:
        command = command.commands["run"]
    return " ".join(path), command, left


def options_of(command: Any) -> dict[str, Any]:
    return {option: parameter for parameter in command.params for option in parameter.opts} | {"--help": None}


def test_the_pages_show_every_command() -> None:
    shown = {find_command(shlex.split(command)[1:])[0] for _, command in SHOWN}
    assert {path for path, _ in _leaves()} <= shown


@pytest.mark.parametrize(("name", "command"), SHOWN)
def test_a_command_of_a_page_exists_with_its_options(name: str, command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    path, found, left = find_command(words)
    if left[:1] == ["COMMAND"]:  # `gfs COMMAND --help` stands for all
        return
    known = options_of(found)
    assert path or all(word.startswith("--") for word in left), f"{name}: there is no command {command!r}"
    for word in left:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"{name}: {command!r} uses {word}, which gfs {path} has not"


@pytest.mark.parametrize(("name", "command"), TYPED)
def test_a_command_of_a_block_can_be_typed_as_it_stands(name: str, command: str) -> None:
    """Every option gets a value of its kind, nothing required is left out, the parameters exist."""
    _, found, left = find_command(shlex.split(command, comments=True)[1:])
    with found.make_context("gfs", left) as context:
        gfs.Parameters().changed(dict(pair.split("=") for pair in context.params.get("settings") or ()))
        assert set((context.params.get("schedulers") or "gfs").split(",")) <= schedulers(), name
        assert (context.params.get("scheduler") or "gfs") in schedulers(), name


def schedulers() -> set[str]:
    """Those that come with GFS and those of the examples."""
    examples = [tomllib.loads(path.read_text()) for path in (ROOT / "examples").glob("*/pyproject.toml")]
    return {*gfs.SCHEDULERS, *(n for e in examples for n in e["project"]["entry-points"]["gfs.schedulers"])}


def test_the_guide_shows_the_example_as_it_is() -> None:
    page = "docs/guides/add-a-scheduler.md"
    assert blocks(page, "toml") == [text_of("examples/gfs-apart/pyproject.toml")]
    assert blocks(page, "python")[0] == text_of("examples/gfs-apart/gfs_apart.py")


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words exactly; the numbers to a tenth, so that another NumPy may round otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    printed = [_alike(line) for line in CliRunner().invoke(app, ["demo"]).output.splitlines()]
    (shown,) = [block for block in blocks("README.md", "text") if block.startswith("Two synthetic weeks")]
    for line in shown.splitlines():
        words, numbers = _alike(line)
        assert any(words == w and numbers == pytest.approx(n, rel=0.1) for w, n in printed), line


def _alike(line: str) -> tuple[list[str], list[float]]:
    """The words of a line without its numbers and stars, and its numbers."""
    number = r"(?<![\w-])\d[\d,]*(?:\.\d+)?"
    words = re.sub(number, "#", line.replace("*", "")).split()
    return words, [float(text.replace(",", "")) for text in re.findall(number, line)]


def test_the_command_reference_lists_every_option() -> None:
    page = text_of("docs/reference/command-line.md")
    shared = page.partition("## Options that several commands have")[2].partition("\n## ")[0]
    for path, command in _leaves():
        heading = "gfs schedulers, gfs parameters" if path in ("schedulers", "parameters") else f"gfs {path}"
        section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert section, f"no section on gfs {path}"
        known = options_of(command)
        for option in known.keys() - {"--help", "TASK", "task", "file", "folder"}:
            assert f"`{option}" in section or f" {option} " in section, f"gfs {path} {option} is not documented"
        if not section.startswith("\nList what"):
            named = set(re.findall(r"`(--[a-z-]+)", section))
            assert named <= known.keys(), f"gfs {path} has no {', '.join(named - known.keys())}"
    assert set(re.findall(r"`(--[a-z-]+)", shared)) <= {o for _, c in _leaves() for o in options_of(c)}


def _leaves() -> list[tuple[str, Any]]:
    """All commands that do something: those of groups, and those without a group."""
    found: list[tuple[str, Any]] = []
    for name, command in getattr(root_command(), "commands", {}).items():
        inner = getattr(command, "commands", {})
        found += [(f"{name} {n}", c) for n, c in inner.items()] or [(name, command)]
    return [(IMPLIED if path == f"{IMPLIED} run" else path, command) for path, command in found]


# -- links, tables, trees ----------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for target in LINK.findall(FENCED.sub("", text_of(name))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), f"{name} links to {target}"
        if anchor:
            assert anchor in anchors(page), f"{name} links to {target}"


def test_every_page_can_be_reached() -> None:
    linked = {ROOT / "README.md"}
    for name in NAMES:
        for target in LINK.findall(text_of(name)):
            linked.add(((ROOT / name).parent / target.partition("#")[0]).resolve())
    assert set(PAGES) <= linked


def test_the_pages_of_the_site_link_to_nothing_outside_it() -> None:
    """`make docs` sees only docs/."""
    for page in (ROOT / "docs").rglob("*.md"):
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            if not re.match(r"[a-z]+:", target):
                assert ROOT / "docs" in (page.parent / target.partition("#")[0]).resolve().parents, f"{page}: {target}"


def test_the_files_and_names_of_the_papers_equations_exist() -> None:
    """The page on the paper says `file`: `name`, `name`; every equation and algorithm of the paper has a row."""
    page = text_of("docs/concepts/the-paper.md")
    named = re.findall(r"`(src/gfs/[\w/.]+)`(?:: ((?:`\w+`(?:, )?)+))?", page)
    assert len(named) > 20
    for file, names in named:
        assert (ROOT / file).exists(), f"the-paper.md names {file}"
        for name in re.findall(r"\w+", names):
            defined = rf"^(?:class|def) {name}\b|^{name} ="
            assert re.search(defined, text_of(file), re.MULTILINE), f"the-paper.md: {file} has no {name}"
    numbers = {int(n) for row in re.findall(r"^\| Eq\. ([^:]+):", page, re.MULTILINE) for n in re.findall(r"\d+", row)}
    assert numbers == set(range(1, 20))
    assert set(re.findall(r"^\| (Alg\. \d)", page, re.MULTILINE)) == {"Alg. 1", "Alg. 2", "Alg. 3"}


def test_code_cites_pages_that_exist() -> None:
    for file in (file for folder in ("src", "tests", "tools", "benchmarks") for file in (ROOT / folder).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text):
            assert (ROOT / page).exists(), f"{file} cites {page}"
        assert not re.search(r"\bSPEC [0-9]", text), f"{file} cites a specification that is not in this repository"


def test_the_parameter_table_is_complete() -> None:
    """To renew it, paste what this expects."""
    rows = [
        f"| `{i.name}` | `{_as_toml(i.default)}` | {i.allowed or 'text'} | {i.meaning} |"
        for i in gfs.Parameters.describe()
    ]
    assert "\n".join(["| parameter | default | allowed | meaning |", "|---|---|---|---|", *rows, ""]) in text_of(
        "docs/reference/parameters.md"
    )


def _as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else f'"{value}"'


def test_the_layout_in_the_readme_is_that_of_the_repository() -> None:
    (tree,) = [block for block in blocks("README.md", "text") if block.startswith("src/gfs/")]
    below = re.findall(r"^  (\w+(?:/|\.py)) ", tree, re.MULTILINE)
    top = re.findall(r"^(\w+/) ", tree, re.MULTILINE)
    assert all((ROOT / "src/gfs" / entry).exists() for entry in below)
    assert all((ROOT / entry).is_dir() for entry in top)
    packages = {f"{path.parent.name}/" for path in (ROOT / "src/gfs").glob("*/__init__.py")}
    assert packages <= set(below), "a package is missing in the layout"


def test_the_files_page_names_the_columns_as_they_are(trace: Path) -> None:
    from gfs.workloads.readers.alibaba import JOB_COLUMNS, NODE_COLUMNS, OPTIONAL_JOB_COLUMNS

    page = text_of("docs/reference/files.md")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")}
    result = gfs.simulate(trace / "jobs.csv", trace / "nodes.csv", record_quota=True, quota="fixed")
    assert result.quota is not None
    for heading, columns in {
        "Trace": (*JOB_COLUMNS, *OPTIONAL_JOB_COLUMNS, *NODE_COLUMNS),
        "Event log": result.events.column_names,
        "Quota log": result.quota.column_names,
        "Summary": _keys(result.summary()) - set(result.parameters.to_dict()),
    }.items():
        missing = [name for name in columns if not re.search(rf"[`\"]{name}[`\"]", sections[heading])]
        assert not missing, f"files.md, {heading}: {missing}"


def _keys(value: Any) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(_keys(inner) for inner in value.values()))


def test_the_metrics_page_explains_every_metric(trace: Path) -> None:
    page = text_of("docs/concepts/metrics.md")
    metrics = gfs.simulate(trace / "jobs.csv", trace / "nodes.csv").metrics.to_dict()
    wanted = {*metrics, *metrics["hp"], *metrics["spot"]}
    assert not [name for name in wanted if f"`{name}`" not in page]


def test_the_python_page_names_the_whole_interface() -> None:
    page = text_of("docs/reference/python-api.md")
    named = set(re.findall(r"\bgfs\.(\w+)", page)) - {"parts", "batch", "report", "telemetry", "workloads"}
    assert named == set(gfs.__all__), "docs/reference/python-api.md and gfs.__all__ differ"
    for name in gfs.__all__:
        assert getattr(gfs, name) is not None


def test_the_decisions_are_numbered_and_have_three_parts() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    numbers = [page.name[:4] for page in pages]
    assert len(set(numbers)) == len(numbers), "a number is given once"
    index, _, moved = text_of("docs/decisions/README.md").partition("## Moved")
    assert re.findall(r"^\* \[(.+)\]\((.+)\)$", index, re.MULTILINE) == [
        (page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "), page.name) for page in pages
    ]
    gone = {f"{number:04}" for number in range(1, int(numbers[-1]))} - set(numbers)
    assert gone <= set(re.findall(r"^\| (\d{4}):", moved, re.MULTILINE)), "a number that is gone has a note"
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]}: ")
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequence")), page.name


def test_the_picture_is_there_and_of_modest_size() -> None:
    picture = ROOT / "docs/images/demo-report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 250_000
