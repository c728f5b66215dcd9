"""The colours of the one design that the web page and all reports share, as `design.css` has them."""

from __future__ import annotations

import re
from importlib import resources
from typing import Final


def _colours(block: int) -> dict[str, str]:
    """Name -> colour of the n-th set of colours: 0 light, 1 dark, 2 on paper."""
    style = resources.files("gfs.report").joinpath("design.css").read_text(encoding="utf-8")
    told = re.findall(r":root {(.*?)}", style, flags=re.DOTALL)[block]
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]+)", told))


LIGHT: Final = _colours(0)
DARK: Final = _colours(1)
