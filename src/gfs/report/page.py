"""One self-contained HTML page: text, tables and Plotly charts that work offline.

Charts are plain Plotly figures (data and layout). Plotly's own code is embedded once; colours of text and
grid follow the reader's light or dark setting, and paper is always light. A `Pick` inside a figure stands for
values among which the reader chooses with a `Chooser`.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gfs.files import write_text
from gfs.report.assets import SCRIPT, STYLE


@dataclass(frozen=True, slots=True)
class Chart:
    """A Plotly figure with the words around it."""

    title: str
    caption: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 340
    wide: bool = True
    """Takes the whole width; two narrow ones stand side by side where there is room."""


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table. The first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: frozenset[tuple[int, int]] = frozenset()
    """(row, column) of the cells to mark as best."""
    hints: Sequence[str] = ()
    """What each column means, shown when pointed at."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that matters, and how it changed."""

    label: str
    value: str
    detail: str
    good: bool | None = None
    """True: better, False: worse, None: neither."""


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph; `lead` sets it larger."""

    text: str
    lead: bool = False


@dataclass(frozen=True, slots=True)
class Details:
    """Text as it is, folded away until asked for."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Something for the reader to choose."""

    name: str
    """What a `Pick` calls it."""
    label: str
    options: Sequence[str]
    chosen: int = 0
    """Position of the option that is chosen at first."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """A row of choices; every chart of the page that has a `Pick` of theirs follows."""

    choices: Sequence[Choice]


@dataclass(frozen=True, slots=True)
class Pick:
    """A value inside a chart that depends on choices: `of` has a level of nesting for each of them."""

    by: tuple[str, ...]
    of: Sequence[Any]


Block = Chart | Chooser | DataTable | Words | Details | tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block] = field(default=())


def build_page(title: str, subtitle: str, sections: Iterable[Section]) -> str:
    """Put a page together as one HTML text that loads nothing from elsewhere."""
    from plotly.offline import get_plotlyjs

    charts: list[Chart] = []
    body = "\n".join(_section(s, charts) for s in sections)
    figures = [{"data": c.data, "layout": c.layout} for c in charts]
    # '</' would end the script element, wherever it came from.
    payload = json.dumps(figures, separators=(",", ":"), default=plain, allow_nan=False).replace("</", "<\\/")
    script = f"<script>{get_plotlyjs()}</script>\n" if charts else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n{script}</head>\n<body>\n"
        f"<header><h1>{html.escape(title)}</h1><p>{html.escape(subtitle)}</p></header>\n<main>\n{body}\n</main>\n"
        f"<script>const figures={payload};\n{SCRIPT}</script>\n</body>\n</html>\n"
    )


def write_page(text: str, out: Path) -> None:
    """Write a page whole or not at all; raises InputError when it cannot be written."""
    write_text(out, text)


def plain(value: object) -> object:
    """Numbers of NumPy as JSON, to five digits: a chart shows no more, and the page stays small. NaN is a gap."""
    if isinstance(value, Pick):
        return {"pick": value.by, "of": value.of}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            return [plain(row) for row in value] if value.ndim > 1 else [_short(x) for x in value.tolist()]
        return value.tolist()
    if isinstance(value, np.floating):
        return _short(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    raise TypeError(f"cannot put {type(value).__name__} on a page")


def _short(value: float) -> float | int | None:
    """To five digits; a whole number without '.0'."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def _section(section: Section, charts: list[Chart]) -> str:
    parts = [_block(b, charts) for b in section.blocks]
    title = html.escape(section.title)
    return f'<section>\n<h2>{title}</h2>\n<div class="grid">\n{"".join(parts)}</div>\n</section>'


def _block(block: Block, charts: list[Chart]) -> str:
    match block:
        case Chart():
            charts.append(block)
            label = html.escape(block.title, quote=True)
            return (
                f'<figure class="{"wide" if block.wide else "half"}"><h3>{html.escape(block.title)}</h3>'
                f'<div class="chart" role="img" aria-label="{label}" style="height:{block.height}px"></div>'
                f"<figcaption>{html.escape(block.caption)}</figcaption></figure>\n"
            )
        case Chooser():
            return f'<div class="chooser">{"".join(_choice(c) for c in block.choices)}</div>\n'
        case DataTable():
            return _table(block)
        case Words():
            return f'<p class="{"lead" if block.lead else "words"}">{html.escape(block.text)}</p>\n'
        case Details():
            return (
                f"<details><summary>{html.escape(block.title)}</summary>"
                f"<pre>{html.escape(block.text)}</pre></details>\n"
            )
        case _:
            return f'<div class="figures">{"".join(_figure(f) for f in block)}</div>\n'


def _choice(choice: Choice) -> str:
    options = "".join(
        f'<option value="{i}"{" selected" if i == choice.chosen else ""}>{html.escape(text)}</option>'
        for i, text in enumerate(choice.options)
    )
    name = html.escape(choice.name, quote=True)
    select = f'<select data-choice="{name}" autocomplete="off">{options}</select>'
    return f"<label><span>{html.escape(choice.label)}</span>{select}</label>"


def _figure(figure: Figure) -> str:
    tone = {True: "good", False: "bad", None: "even"}[figure.good]
    return (
        f'<div class="figure {tone}"><span class="label">{html.escape(figure.label)}</span>'
        f'<span class="value">{html.escape(figure.value)}</span>'
        f'<span class="detail">{html.escape(figure.detail)}</span></div>'
    )


def _table(table: DataTable) -> str:
    hints = [*table.hints, *[""] * len(table.header)]
    head = "".join(
        f'<th scope="col" title="{html.escape(hint, quote=True)}">{html.escape(h)}</th>'
        for h, hint in zip(table.header, hints, strict=False)
    )
    rows = []
    for i, row in enumerate(table.rows):
        cells = [f'<th scope="row">{html.escape(row[0])}</th>'] if row else []
        for j, text in enumerate(row[1:], 1):
            mark = ' class="best"' if (i, j) in table.best else ""
            star = " ★" if mark else ""
            cells.append(f"<td{mark}>{html.escape(text)}{star}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{note}\n'
    )
