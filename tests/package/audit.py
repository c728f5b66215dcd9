"""`make audit`: whether a version in constraints.txt has a known vulnerability, by pip-audit and PyPI's advisories.

A package of which advisories are known is asked for, too. Where that answer does not come, nobody knows any advisories
there (a registry in between, no network): that is said in one line and is no failure. Everything else that keeps a
package from being audited is one, and so is every finding.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOL = "pip-audit==2.10.1"
KNOWN = ("django", "2.0")
"""Not one of ours; has had advisories since 2018 (CVE-2018-6188)."""


def audit(requirements: list[str]) -> tuple[dict[str, Any] | None, str]:
    """What pip-audit reports, None if nothing, and its last words."""
    folder = ROOT / "build" / "audit"
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", TOOL], check=True)
    with tempfile.TemporaryDirectory() as scratch:
        listed, report = Path(scratch) / "requirements.txt", Path(scratch) / "report.json"
        listed.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        words = [python, "-m", "pip_audit", "-r", listed, "--disable-pip", "--no-deps", "--progress-spinner", "off"]
        done = subprocess.run([*words, "-f", "json", "-o", report], capture_output=True, text=True, check=False)
        said = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
        return (json.loads(report.read_text(encoding="utf-8")) if report.exists() else None), said


def judge(report: dict[str, Any] | None, said: str) -> tuple[bool, list[str]]:
    """Whether it passes, and what to tell."""
    if report is None:
        if "Error" in said and any(word in said for word in ("Connection", "resolve", "Timeout", "timed out", "Proxy")):
            return True, [f"make audit: NOT AUDITED, the advisory service cannot be reached from here ({said[:120]})"]
        return False, [f"make audit: pip-audit failed: {said}"]
    packages = report["dependencies"]
    known = next(each for each in packages if (each["name"], each.get("version", KNOWN[1])) == KNOWN)
    if "skip_reason" in known:
        return True, ["make audit: NOT AUDITED, what answers here for PyPI knows no advisories"]
    if not known["vulns"]:
        return False, [f"make audit: no advisory for {KNOWN[0]} {KNOWN[1]}, so these answers mean nothing"]
    rest = [each for each in packages if each is not known]
    told = [f"{each['name']}: {each['skip_reason']}" for each in rest if "skip_reason" in each]
    for each in rest:
        for found in each.get("vulns", ()):
            fixed = ", ".join(found.get("fix_versions") or ()) or "no version yet"
            told.append(f"{each['name']} {each['version']}: {found['id']}, mended in {fixed}")
    return not told, told or [f"make audit: no known vulnerability in {len(rest)} packages"]


if __name__ == "__main__":
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    passes, told = judge(*audit([*pinned, "==".join(KNOWN)]))
    print("\n".join(told))
    sys.exit(not passes)
