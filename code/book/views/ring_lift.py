"""The ring lift: a view in which hidden units lift points, and a plane sorts them.

A reader moves the units' lines, bends them or not, and turns the lifted points about.
The accuracy of the best plane is computed again at every change.
"""

from typing import Any

import numpy as np
from taken_apart.views import View, as_array

from . import JS

YAW, PITCH = 110.0, 20.0  # degrees: how the lifted points are looked at first


class RingLift(View):
    """Points (N, 2) of two kinds, lifted by two or three hidden units with ReLU.

    `labels` (N,) is bool. `weight` (2, F) and `bias` (F,), with F 2 or 3, are the
    hidden layer; each unit is scaled to a direction of length one, which moves no line
    and hides nothing from a plane. NumPy or torch. Raises ValueError for shapes that do
    not fit, for numbers that are not finite, and for a unit without direction.
    """

    module = JS / "ring_lift/ring_lift.js"
    styles = (JS / "ring_lift/ring_lift.css",)

    def __init__(self, points: Any, labels: Any, weight: Any, bias: Any):
        self.points = as_array("points", points)
        self.labels = as_array("labels", labels).astype(int)
        self.weight, self.bias = unit_lines(
            as_array("weight", weight), as_array("bias", bias)
        )
        if self.points.ndim != 2 or self.points.shape[1] != 2:
            raise ValueError(f"points must be (N, 2), got {self.points.shape}")
        if self.labels.shape != (len(self.points),):
            wanted, got = (len(self.points),), self.labels.shape
            raise ValueError(f"labels must be {wanted}, one a point, got {got}")
        if not np.isfinite(self.points).all():
            raise ValueError("points must be finite, got nan or inf")
        angles = np.degrees(np.arctan2(self.weight[1], self.weight[0])) % 360
        super().__init__(
            points=self.points.round(6).tolist(),
            labels=self.labels.tolist(),
            units=[
                {"angle": round(float(angle), 2), "offset": round(float(offset), 3)}
                for angle, offset in zip(angles, self.bias, strict=True)
            ],
            relu=True,
            unit=0,
            camera=[YAW, PITCH],
        )

    def summary(self) -> str:
        n_units = self.weight.shape[1]
        return f"{len(self.points)} points, {n_units} hidden units"

    def hidden(self, relu: bool = True) -> np.ndarray:
        """Return the lifted points (N, 3); a unit that is missing gives 0."""
        heights = self.points @ self.weight + self.bias
        heights = np.maximum(heights, 0) if relu else heights
        return np.pad(heights, ((0, 0), (0, 3 - heights.shape[1])))

    def still(self) -> str:
        """Return the lifted points with and without ReLU, as two drawings."""
        drawings = "".join(
            f"<figure>{self.drawing(relu)}<figcaption>{text}</figcaption></figure>"
            for relu, text in (
                (True, "With ReLU the points leave the plane."),
                (False, "Without it they stay in a flat sheet."),
            )
        )
        return f'<div class="lift-still">{drawings}</div>'

    def drawing(self, relu: bool) -> str:
        """Return the lifted points as SVG, looked at as the view does at first."""
        seen = turned(self.hidden(relu), YAW, PITCH)
        seen -= (seen.max(axis=0) + seen.min(axis=0)) / 2
        places = (150 + 130 * seen / np.abs(seen).max()).round(1)
        circles = "".join(
            f'<circle class="lift-{label}" cx="{x}" cy="{300 - y:.1f}" r="3.5"/>'
            for (x, y), label in zip(places, self.labels, strict=True)
        )
        label = f"The lifted points, {'with' if relu else 'without'} ReLU"
        box = 'viewBox="0 0 300 300" width="260" role="img"'
        return f'<svg {box} aria-label="{label}">{circles}</svg>'


def unit_lines(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the units scaled to directions of length one, and their offsets."""
    if weight.ndim != 2 or len(weight) != 2 or weight.shape[1] not in (2, 3):
        raise ValueError(f"weight must be (2, F) with F 2 or 3, got {weight.shape}")
    if bias.shape != weight.shape[1:]:
        raise ValueError(f"bias must be {weight.shape[1:]}, got {bias.shape}")
    lengths = np.linalg.norm(weight, axis=0)
    if not (np.isfinite(bias).all() and np.isfinite(lengths).all() and lengths.all()):
        raise ValueError("weight and bias must be finite, and no unit all zero")
    return weight / lengths, bias / lengths


def turned(spots: np.ndarray, yaw: float, pitch: float) -> np.ndarray:
    """Return points of space (N, 3) as seen: to the right, and upwards; (N, 2)."""
    yaw, pitch = np.radians([yaw, pitch])
    x, y, z = spots.T
    away = np.cos(yaw) * y - np.sin(yaw) * x
    right = np.cos(yaw) * x + np.sin(yaw) * y
    return np.stack((right, np.cos(pitch) * z + np.sin(pitch) * away), axis=1)
