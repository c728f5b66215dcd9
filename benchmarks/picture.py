"""The curve as a small picture: end-to-end CPU seconds over tasks, both axes logarithmic. Plain SVG."""

from __future__ import annotations

from math import ceil, floor, log10
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 300, 60, 44, 16
COLOURS = {"fixed": "#1f6fb4", "forecast": "#c2571a"}


def draw_curve(points: list[dict[str, Any]], path: Path) -> None:
    """Write the picture."""
    xs = [log10(point["tasks"]) for point in points]
    ys = [log10(point["end_to_end_seconds"]) for point in points]
    left, right, low, high = min(xs) - 0.15, max(xs) + 0.35, floor(min(ys)), ceil(max(ys))

    def x(tasks: float) -> float:
        return LEFT + (log10(tasks) - left) / (right - left) * (WIDTH - LEFT - 10)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (log10(seconds) - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - 10}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10**power:,g} s</text>')
    parts += [
        f'<text x="{x(tasks):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tasks:,}</text>'
        for tasks in sorted({point["tasks"] for point in points})
    ]
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">tasks (nodes grow alike)</text>')
    for quota, colour in COLOURS.items():
        line = sorted((each["tasks"], each["end_to_end_seconds"]) for each in points if each["quota"] == quota)
        if line:
            corners = " ".join(f"{x(tasks):.1f},{y(seconds):.1f}" for tasks, seconds in line)
            parts.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x(t):.1f}" cy="{y(s):.1f}" r="3.5" fill="{colour}"/>' for t, s in line]
            end_x, end_y = x(line[-1][0]), y(line[-1][1])
            parts.append(f'<text x="{end_x + 7:.1f}" y="{end_y + 4:.1f}" fill="{colour}">{quota}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
