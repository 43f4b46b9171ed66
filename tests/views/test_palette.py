"""Colours of limiters are told apart by every common kind of colour vision, in every theme."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from timeroof.views.style import LIMITERS

# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
VISION = {
    "full": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
WHITE = [0.9505, 1.0, 1.089]
# What is unknown is hatched as well: its colour need not be told apart.
KINDS = [kind for kind in LIMITERS if kind != "unknown"]
# Okabe and Ito's closest two colours are 19 apart under their worst vision.
LEAST = 15.0


def lab(colour: str, vision: str) -> np.ndarray:
    """A colour as it is seen, in CIE L*a*b*."""
    rgb = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    xyz = np.array(TO_XYZ) @ seen / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["print", "light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_limiters_are_told_apart(theme: str, vision: str) -> None:
    colours = {kind: lab(getattr(LIMITERS[kind], theme), vision) for kind in KINDS}
    apart = {
        (a, b): float(np.linalg.norm(colours[a] - colours[b])) for a, b in combinations(KINDS, 2)
    }
    close = {pair: round(distance, 1) for pair, distance in apart.items() if distance < LEAST}
    assert not close


def test_each_limiter_has_a_symbol_of_its_own() -> None:
    symbols = [LIMITERS[kind].symbol for kind in KINDS]
    assert len(set(symbols)) == len(symbols)
