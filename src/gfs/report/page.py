"""One self-contained HTML page: text, tables and Plotly charts that work offline.

Charts are Plotly's graph objects (`figures.py`). Plotly's own code and the template are embedded once; colours of
text and grid follow the reader's light or dark setting, and paper is always light.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np

from gfs.domain.text import printable
from gfs.files import write_text
from gfs.report import design
from gfs.report.table import Column, DataTable

SIGNS: Final = {"recommended": " ★", "missed": " !"}
DENSE: Final = 9
"""Columns from which a table is set smaller, so that all are seen on a screen of 1280 pixels."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A Plotly figure with the words around it."""

    title: str
    caption: str
    data: Sequence[Any]
    """Graph objects: Scatter, Bar, Heatmap."""
    layout: Any
    height: int = 340
    wide: bool = True
    """Takes the whole width; two narrow ones stand side by side where there is room."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that matters, and how it changed."""

    label: str
    value: str
    detail: str
    good: bool | None = None
    """True: better, False: worse, None: neither."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `lead` sets it larger."""

    text: str
    lead: bool = False


@dataclass(frozen=True, slots=True)
class Details:
    """Text as it is, folded away until asked for."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Something for the reader to choose."""

    name: str
    """What a `Selected` calls it."""
    label: str
    options: Sequence[str]
    chosen: int = 0
    """Position of the option that is chosen at first."""


@dataclass(frozen=True, slots=True)
class SelectorBar:
    """A row of selectors; every chart of the page that has a `Selected` of theirs follows."""

    selectors: Sequence[Selector]


@dataclass(frozen=True, slots=True)
class Selected:
    """A property of a chart that depends on selectors: `of` has a level of nesting for each of them."""

    by: tuple[str, ...]
    of: Sequence[Any]

    def map(self, change: Callable[[Any], Any]) -> Selected:
        """Each value changed; of one selector."""
        return Selected(self.by, [change(value) for value in self.of])


Block = Chart | SelectorBar | DataTable | Paragraph | Details | tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class PageSection:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block] = field(default=())


def build_page(title: str, subtitle: str, sections: Iterable[PageSection]) -> str:
    """Put a page together as one HTML text that loads nothing from elsewhere."""
    charts: list[Chart] = []
    body = "\n".join(_section(s, charts) for s in sections)
    library = script = ""
    if charts:
        from plotly.offline import get_plotlyjs

        from gfs.report.figures import TEMPLATE

        library = f"<script>{get_plotlyjs()}</script>\n"
        figures = [{"data": list(c.data), "layout": c.layout} for c in charts]
        data = f"const figures={_json(figures)};\nconst template={_json(TEMPLATE)};\nconst tokens={_json(_tokens())};\n"
        script = f"<script>{data}{_asset('page.js')}</script>\n"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{_asset('design.css')}</style>\n{library}</head>\n<body>\n"
        f"<header><h1>{_text(title)}</h1><p>{_text(subtitle)}</p></header>\n<main>\n{body}\n</main>\n"
        f"{script}</body>\n</html>\n"
    )


@cache
def _asset(name: str) -> str:
    """The style sheet and the script of all pages."""
    return resources.files("gfs.report").joinpath(name).read_text(encoding="utf-8")


def _tokens() -> dict[str, str]:
    """Colour -> the name that the design has for it: the reader's setting may call for another one."""
    return {colour: f"--{name}" for name, colour in design.LIGHT.items() if re.fullmatch("#[0-9a-f]{6}", colour)}


def _json(value: Any) -> str:
    """As a script has it: '</' would end the script element, wherever it came from."""
    return json.dumps(value, separators=(",", ":"), default=plain, allow_nan=False).replace("</", "<\\/")


def write_page(out: Path, title: str, subtitle: str, sections: Iterable[PageSection]) -> None:
    """Write a page whole or not at all; raises InputError when it cannot be written."""
    write_text(out, build_page(title, subtitle, sections))


def plain(value: object) -> object:
    """What JSON does not know. Numbers of NumPy to five digits: a chart shows no more, and the page stays small."""
    if isinstance(value, Selected):
        return {"pick": value.by, "of": value.of}
    if hasattr(value, "to_plotly_json"):
        return value.to_plotly_json()
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
    """To five digits; a whole number without '.0'; NaN is a gap."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


def _section(section: PageSection, charts: list[Chart]) -> str:
    parts = [block_html(b, charts) for b in section.blocks]
    title = _text(section.title)
    return f'<section>\n<h2>{title}</h2>\n<div class="grid">\n{"".join(parts)}</div>\n</section>'


def block_html(block: Block, charts: list[Chart]) -> str:
    """A block as HTML; a chart is added to `charts`, from which the page draws it."""
    match block:
        case Chart():
            charts.append(block)
            label = _text(block.title)
            return (
                f'<figure class="{"wide" if block.wide else "half"}"><h3>{_text(block.title)}</h3>'
                f'<div class="chart" role="img" aria-label="{label}" style="height:{block.height}px"></div>'
                f"<figcaption>{_text(block.caption)}</figcaption></figure>\n"
            )
        case SelectorBar():
            return f'<div class="selectors">{"".join(_selector(c) for c in block.selectors)}</div>\n'
        case DataTable():
            return table_html(block)
        case Paragraph():
            return f'<p class="{"lead" if block.lead else "words"}">{_text(block.text)}</p>\n'
        case Details():
            return f"<details><summary>{_text(block.title)}</summary><pre>{_text(block.text)}</pre></details>\n"
        case _:
            return f'<div class="tiles">{"".join(_tile(t) for t in block)}</div>\n'


def _selector(selector: Selector) -> str:
    options = "".join(
        f'<option value="{i}"{" selected" if i == selector.chosen else ""}>{_text(text)}</option>'
        for i, text in enumerate(selector.options)
    )
    name = _text(selector.name)
    select = f'<select data-selector="{name}" autocomplete="off">{options}</select>'
    return f"<label><span>{_text(selector.label)}</span>{select}</label>"


def _tile(tile: Tile) -> str:
    tone = {True: "good", False: "bad", None: "even"}[tile.good]
    return (
        f'<div class="tile {tone}"><span class="label">{_text(tile.label)}</span>'
        f'<span class="value">{_text(tile.value)}</span>'
        f'<span class="detail">{_text(tile.detail)}</span></div>'
    )


def table_html(table: DataTable) -> str:
    """All columns; where the page is narrow the table scrolls under its first column."""
    columns, best = table.every_column, table.marked()
    head = "".join(
        f'<th scope="col"{_aligned(c, i < table.names)} title="{_text(c.help)}">{_heading(c)}</th>'
        for i, c in enumerate(columns)
    )
    rows = []
    for i, row in enumerate(table.texts()):
        mark = table.marks.get(i)
        sign = SIGNS[mark] if mark else ""
        cells = []
        for j, (column, text) in enumerate(zip(columns, row, strict=False)):
            name = j < table.names
            if name:
                sign_here = sign if j == table.names - 1 else ""
                # What is left blank because the row above says it is no heading.
                tag, scope = ("th", ' scope="row"') if text.strip() or sign_here else ("td", "")
                cells.append(f"<{tag}{scope}{_aligned(column, name)}>{_text(text)}{sign_here}</{tag}>")
                continue
            starred = (i, j) in best
            kind = ' class="best"' if starred else _aligned(column, name)
            cells.append(f"<td{kind}>{_text(text)}{' ★' if starred else ''}</td>")
        rows.append(f'<tr class="{mark}">{"".join(cells)}</tr>' if mark else f"<tr>{''.join(cells)}</tr>")
    lines = [f"★ best of its {table.best_of}."] if best else []
    lines += [table.note] if table.note else []
    lines += [f"{line}." for line in table.legend()]
    note = f'<p class="note">{_text(chr(10).join(lines))}</p>' if lines else ""
    title = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    dense = " dense" if len(columns) > DENSE else ""
    return (
        f'<div class="table{dense}"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{note}\n"
    )


def _heading(column: Column) -> str:
    """The unit stays whole."""
    header = _text(column.header).replace("\n", "<br>")
    return f'{header} <span class="unit">[{_text(column.unit.label)}]</span>' if column.unit.label else header


def _aligned(column: Column, name: bool) -> str:
    return ' class="text"' if name or column.left or column.wrap else ""


def _text(text: str) -> str:
    """Names of any kind as text of a page."""
    return html.escape(printable(text), quote=True)
