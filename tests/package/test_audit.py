"""What `make audit` makes of a report: findings are never hidden; without a service that knows any, it says so."""

from __future__ import annotations

import pytest
from audit import KNOWN, judge

VULNERABLE = {"name": KNOWN[0], "version": KNOWN[1], "vulns": [{"id": "CVE-2018-6188", "fix_versions": ["2.0.2"]}]}
CLEAN = {"name": "numpy", "version": "2.0.0", "vulns": []}
BAD = {"name": "aiohttp", "version": "3.0.0", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"]}, {"id": "CVE-2"}]}
SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "passes", "said"),
    [
        ([CLEAN, VULNERABLE], True, "no known vulnerability in 1 packages"),
        ([CLEAN, BAD, VULNERABLE], False, "aiohttp 3.0.0: CVE-1, mended in 3.1"),
        ([BAD, VULNERABLE], False, "CVE-2, mended in no version yet"),
        ([SKIPPED, VULNERABLE], False, "numpy: Dependency not found"),
        ([CLEAN, {**SKIPPED, "name": KNOWN[0]}], True, "NOT AUDITED, what answers here for PyPI knows no advisories"),
        ([CLEAN, {**VULNERABLE, "vulns": []}], False, "these answers mean nothing"),
    ],
    ids=["clean", "finding", "without a mended version", "one skipped", "no service", "no advisory at all"],
)
def test_reports(packages: list[object], passes: bool, said: str) -> None:
    passed, told = judge({"dependencies": packages}, "")
    assert passed == passes
    assert said in "\n".join(told)


def test_no_report() -> None:
    passed, told = judge(None, "requests.exceptions.ConnectionError: Failed to resolve 'index.example'")
    assert passed
    assert "NOT AUDITED" in told[0]
    passed, told = judge(None, "ValueError: what is this")
    assert not passed
