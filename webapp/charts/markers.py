"""The shapes of markers as SVG paths, and how coordinates are written."""

from __future__ import annotations

import math
from collections.abc import Sequence


def px(value: float) -> str:
    """Write a coordinate with at most one decimal: more is invisible and only makes pages big."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def marker_path(shape: str, x: float, y: float, radius: float) -> str:
    """Return the path of a marker around (x, y)."""
    r = radius
    if shape == "circle":
        half = f"a{px(r)} {px(r)} 0 1 0"
        return f"M{px(x - r)} {px(y)}{half} {px(2 * r)} 0{half} {px(-2 * r)} 0z"
    corners: Sequence[tuple[float, float]] = {
        "square": ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
        "triangle-up": ((0, -1.15), (1.05, 0.8), (-1.05, 0.8)),
        "triangle-down": ((0, 1.15), (1.05, -0.8), (-1.05, -0.8)),
        "diamond": ((0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)),
        "x": _cross(45),
        "cross": _cross(0),
        "star": _star(),
    }[shape]
    points = [f"{px(x + dx * r)} {px(y + dy * r)}" for dx, dy in corners]
    return f"M{'L'.join(points)}z"


def _cross(degrees: float) -> list[tuple[float, float]]:
    arm, half = 1.2, 0.4
    outline = [(half, half), (half, arm), (-half, arm), (-half, half)]
    turned = []
    for quarter in range(4):
        angle = math.radians(90 * quarter + degrees)
        cos, sin = math.cos(angle), math.sin(angle)
        turned += [(x * cos - y * sin, x * sin + y * cos) for x, y in outline[:3]]
    return turned


def _star() -> list[tuple[float, float]]:
    radii = (1.3, 0.55)
    return [
        (
            radii[index % 2] * math.sin(math.pi * index / 5),
            -radii[index % 2] * math.cos(math.pi * index / 5),
        )
        for index in range(10)
    ]
