"""Where a measurement was made, what it is compared with, and how it is shown."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import gfs

HERE = Path(__file__).parent
console = Console()


def machine() -> dict[str, Any]:
    """What to know about a record of measurements."""
    return {
        "version": gfs.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": round(os.getloadavg()[0], 1),
    }


def peak_memory() -> float:
    """MiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def against(value: float, limit: float, unit: str = "", digits: int = 1) -> str:
    """A figure beside its limit; one above it is marked."""
    colour, word = ("green", "limit") if value <= limit else ("bold red", "ABOVE its limit of")
    return f"[{colour}]{value:,.{digits}f}{unit}[/] ({word} {limit:,g}{unit})"


def figures_table(title: str, *columns: str) -> Table:
    """Numbers to the right; fits 80 columns."""
    table = Table(title=title, box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def in_own_process(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script of this folder in a process of its own and take the JSON object it prints last."""
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
