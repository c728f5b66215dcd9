"""The status of a controller as a page: read-only, without scripts, renewed every few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}
STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 0 0 1.5rem } th, td { padding: .3rem .6rem; text-align: right }
th:first-child, td:first-child, .quota :last-child { text-align: left } tr { border-bottom: 1px solid #8884 }
.bar { display: flex; height: 1.2rem; background: #8883; margin: .4rem 0 1rem }
.hp { background: #2563a8 } .spot { background: #d9822b }
.note { border-left: 3px solid #d9822b; padding-left: .6rem }
"""
EVERY = 5
"""Seconds after which a browser asks again."""


def page(status: dict[str, Any]) -> str:
    """The page of what `/status` says."""
    pools = "".join(_pool(pool) for pool in status["pools"]) or "<p>No node with GPUs is known yet.</p>"
    leads = f"{escape(status['leader'])} leads" if status["leader"] else "Nobody leads"
    here = "" if status["leads"] else " This replica stands by: ask the leader for the pools."
    notes = [f"{leads}; {status['refused']} pods are refused.{here}", status["history"] and f"{status['history']}."]
    if status["training"]:
        notes.append("A forecaster is being trained; decisions go on.")
    if status["shadow"] is not None:
        notes.append("A shadow: it binds and evicts nothing.")
    lines = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{EVERY}">'
        f'<meta name="viewport" content="width=device-width"><title>GFS</title><style>{STYLE}</style></head>'
        f"<body><h1>GFS on this cluster</h1>{lines}{pools}</body></html>"
    )


def _pool(pool: dict[str, Any]) -> str:
    gpus, tasks = pool["gpus"], pool["tasks"]
    total = max(gpus["total"], 1)
    bar = "".join(
        f'<div class="{kind}" style="width: {100 * gpus[kind] / total:.1f}%"></div>' for kind in ("hp", "spot")
    )
    says = f"{gpus['hp']} of {gpus['total']} GPUs are held by HP, {gpus['spot']} by spot tasks, {gpus['idle']} are idle"
    closed = f", {pool['closed']} of them closed" if pool["closed"] else ""
    counts = _table(
        "tasks", ("tasks", "run", "wait"), ((kind, each["running"], each["waiting"]) for kind, each in tasks.items())
    )
    rows = ((f"{row['guarantee_hours']:g} h", f"{row['quota']:.1f}", row["why"]) for row in pool["quota"])
    quota = _table("quota", ("guarantee", "spot quota", "because"), rows) if pool["quota"] else ""
    caution = f'<p class="note">{escape(pool["caution"])}</p>' if pool["caution"] else ""
    heading = f"<h2>{escape(pool['pool'])}: {pool['nodes']} nodes{closed}</h2>"
    return f'{heading}<p>{says}.</p><div class="bar" role="img" aria-label="{says}">{bar}</div>{caution}{counts}{quota}'


def _table(kind: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f'<table class="{kind}"><tr>{head}</tr>{"".join(f"<tr>{row}</tr>" for row in cells)}</table>'
