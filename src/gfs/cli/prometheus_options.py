"""Options of commands that ask a Prometheus: where it is, how it lets us in, and of which time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from gfs.cli.options import file_option, option
from gfs.domain.errors import GfsError, InputError
from gfs.domain.units import DAY

if TYPE_CHECKING:
    from gfs.live.prometheus import Prometheus
    from gfs.records.kube_state_metrics import Range

PROMETHEUS = "Prometheus"
TOKEN, HEADERS = "GFS_PROMETHEUS_TOKEN", "GFS_PROMETHEUS_HEADERS"
LONGEST = 800.0
"""Days: what is asked for by mistake should not keep a server busy."""
Result = TypeVar("Result")

TokenFile = Annotated[
    Path | None,
    file_option("--token-file", f"File with the bearer token; else {TOKEN} of the environment.", PROMETHEUS),
]
Header = Annotated[
    list[str] | None,
    option(
        "--header",
        f"Sent with every question, such as 'X-Scope-OrgID: gpu'; may be repeated; or lines of {HEADERS}.",
        PROMETHEUS,
        metavar="'NAME: VALUE'",
    ),
]
Start = Annotated[
    str | None,
    option(
        "--start",
        "Beginning, such as 2026-05-01 or 2026-05-01T12:00Z; by default 28 days before the end.",
        PROMETHEUS,
        metavar="TIME",
    ),
]
End = Annotated[str | None, option("--end", "End; by default now.", PROMETHEUS, metavar="TIME")]
Days = Annotated[float | None, option("--days", "Or: so many days before the end.", PROMETHEUS, metavar="N")]
Step = Annotated[
    float,
    option(
        "--step",
        "Seconds to which the end of pods is found that were deleted while they ran.",
        PROMETHEUS,
        metavar="SECONDS",
        min=1.0,
        max=3600.0,
    ),
]


@dataclass(frozen=True, slots=True)
class Server:
    """How a Prometheus is reached. What lets us in is in no repr."""

    url: str = field(repr=False)
    token_file: Path | None = None
    header: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        try:
            import aiohttp  # noqa: F401
        except ImportError as error:
            told = "to ask Prometheus more packages are needed: pip install 'gfs-scheduler[live]'"
            raise InputError(f"{told} ({error})") from None

    def connect(self) -> Prometheus:
        """A client; secrets are read now and told to nobody else."""
        from gfs.live.prometheus import Prometheus

        lines = [*os.environ.get(HEADERS, "").splitlines(), *self.header]
        return Prometheus(self.url, self._token(), dict(_header(line) for line in lines if line.strip()))

    def _token(self) -> str:
        if self.token_file is None:
            return os.environ.get(TOKEN, "")
        try:
            token = self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.token_file}: cannot be read ({error.__class__.__name__})") from None
        if not token or any(not c.isprintable() or c.isspace() for c in token):
            raise InputError(f"{self.token_file}: holds no token: one line of printable characters")
        return token


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or not name.strip().replace("-", "").isalnum() or not value.strip().isprintable():
        raise InputError("--header: write 'Name: value'")  # the value may be secret
    return name.strip(), value.strip()


def parse_range(start: str | None, end: str | None, days: float | None, step: float, usual_days: float = 28) -> Range:
    """The time that is asked for; the end is the last full step."""
    from gfs.records.kube_state_metrics import Range

    if start is not None and days is not None:
        raise InputError("give --start or --days, not both")
    last = min(_parse_moment(end, "--end") if end is not None else time.time(), time.time())
    last -= last % step
    first = _parse_moment(start, "--start") if start is not None else last - (days or usual_days) * DAY
    if first >= last:
        raise InputError("--start must be before --end, and before now; --days must be above 0")
    if last - first > LONGEST * DAY:
        raise InputError(f"{(last - first) / DAY:,.0f} days are asked for; {LONGEST:,.0f} are the most")
    return Range(first, last, step)


def _parse_moment(text: str, option: str) -> float:
    """Seconds since 1970 of '2026-05-01' or '2026-05-01T12:00:00Z'; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: write a date or a moment such as 2026-05-01 or 2026-05-01T12:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def ask(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run to the end what asks a server."""
    try:
        return asyncio.run(work())
    except* GfsError as group:
        raise group.exceptions[0] from None
    raise AssertionError("unreachable")
