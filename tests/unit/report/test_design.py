"""The colours of the design, told apart by everybody: distances are computed, for normal and for colour-blind eyes."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gfs.report.design import DARK, LIGHT
from gfs.report.figures import HP, SERIES, SPOT, colours_of

Floats = npt.NDArray[np.float64]
EYES: dict[str, Floats] = {
    "normal": np.eye(3),
    # Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip # noqa: E501
WHITE = np.array([0.95047, 1.0, 1.08883])
TOLD_APART = 14.0
"""CIEDE2000; 1 is just noticeable side by side, 10 is seen at a glance."""


def linear(colour: str) -> Floats:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> tuple[float, float, float]:
    scaled = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116).tolist()
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: tuple[float, float, float], two: tuple[float, float, float]) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    grey = 1 + 0.5 * (1 - np.sqrt(mean**7 / (mean**7 + 25.0**7)))
    c1, c2 = np.hypot(grey * a1, b1), np.hypot(grey * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, grey * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(part * np.cos(np.radians(times * hue + shift)) for part, times, shift in waves)
    sl = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    blue = 60 * np.exp(-(((hue - 275) / 25) ** 2))
    rt = -np.sin(np.radians(blue)) * 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    return float(np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * dc / sc * dh / sh))


def contrast(one: str, two: str) -> float:
    """As WCAG 2 has it."""
    high, low = sorted((float(TO_XYZ[1] @ linear(c)) for c in (one, two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_distance_is_that_of_the_published_examples() -> None:
    # Rows 1, 7, 17 and 25 of the test data of Sharma, Wu and Dalal 2005.
    assert distance((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert distance((50.0, 0.0, 0.0), (50.0, -1.0, 2.0)) == pytest.approx(2.3669, abs=1e-4)
    assert distance((50.0, 2.5, 0.0), (73.0, 25.0, -18.0)) == pytest.approx(27.1492, abs=1e-4)
    assert distance((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387)) == pytest.approx(1.2644, abs=1e-4)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "names",
    [("hp", "spot", "reserved", "idle", "closed"), (*(f"series-{i}" for i in range(8)), "rest", "idle")],
    ids=["classes", "organizations"],
)
def test_colours_are_told_apart(theme: str, eyes: str, names: tuple[str, ...]) -> None:
    colours = LIGHT if theme == "light" else DARK
    seen = {name: lab(EYES[eyes] @ linear(colours[name])) for name in names}
    pairs = (pair for pair in combinations(names, 2) if pair != ("rest", "idle"))  # two greys beside one another
    nearest = min((distance(seen[one], seen[two]), one, two) for one, two in pairs)
    assert nearest[0] >= TOLD_APART, nearest


@pytest.mark.parametrize(("colours", "card"), [(LIGHT, "#f7f8fa"), (DARK, "#1a2029")], ids=["light", "dark"])
def test_words_can_be_read(colours: dict[str, str], card: str) -> None:
    assert colours["card"] == card
    for name in ("ink", "muted", "good", "bad"):
        assert contrast(colours[name], card) >= 4.5, name


def test_charts_of_reports_take_their_colours_from_the_design() -> None:
    used = {HP, SPOT, *SERIES, *colours_of(["gfs", "lyra", "mine", "another", *map(str, range(12))]).values()}
    assert used <= set(LIGHT.values())
    assert LIGHT.keys() == DARK.keys()


def test_no_page_has_colours_of_its_own() -> None:
    """One design: nothing but the design's own file, and the scale of a heat map, names a colour."""
    root = Path(__file__).parents[3]
    sources = [*(root / "src/gfs/report").glob("*.py"), *(root / "src/gfs/plans").glob("*.py")]
    sources += [*(root / "src/gfs/experiments").glob("*.py"), *(root / "web/src").iterdir()]
    named = {
        (path.name, colour)
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith("HEAT")
        for colour in re.findall(r"#[0-9a-f]{6}\b", line)
    }
    assert named == set()
