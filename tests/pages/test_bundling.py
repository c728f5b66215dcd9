"""The script and style of the page, which are in the repository, are what `make web` makes of web/."""

from __future__ import annotations

import subprocess
from pathlib import Path

from waiting import LONGEST

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "src" / "gfs" / "dashboard" / "static"


def test_bundling_again_gives_the_same_bytes(node_modules: Path, tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=node_modules.parent, check=True, timeout=LONGEST)
    for name in ("page.js", "page.css"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes()
