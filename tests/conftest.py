"""Shared set-up: Hypothesis profiles, the switch that rewrites the golden runs, a line for all that was skipped."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

# Libraries look here whether they are to colour what they print: tests read plain text.
for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)

# `ci` tries the same cases on every machine; `explore` looks for new ones:
#   HYPOTHESIS_PROFILE=explore pytest tests/property
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell starts jobs in the background with Ctrl-C ignored, and programs inherit that: tests press it all the same.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does so with SIGHUP. We go on ignoring it; programs that we start do not, since a handler is not inherited.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="rewrite tests/golden/expected from the present code",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each reason why tests were skipped, and for each known defect that a test showed."""

    def report(stat: str, text: str, reason: Callable[[pytest.TestReport], str]) -> None:
        reports = {report.nodeid: report for report in terminalreporter.stats.get(stat, ())}
        for each, count in sorted(Counter(map(reason, reports.values())).items()):
            terminalreporter.write_line(f"{text}: {count} {'test' if count == 1 else 'tests'} ({each})")

    report("skipped", "not tested", lambda skipped: skipped.longrepr[2].removeprefix("Skipped: "))
    report("xfailed", "known to fail", lambda failed: failed.wasxfail)
