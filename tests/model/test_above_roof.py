"""Why a row is above its roof: what was measured too low, and what cannot be said."""

from __future__ import annotations

import pytest

from tests.conftest import make_machine
from timeroof.core.machine import Ceiling
from timeroof.core.profile import Profile, Source
from timeroof.model.judge import judge


def cause(flops: float, time_s: float = 1.0, theoretical: float | None = 200.0) -> str | None:
    """A row of counted FLOPs on a machine whose measured ceiling is 100 a second."""
    ceilings = [Ceiling(resource="flop/bf16", rate=100.0, origin="measured")]
    if theoretical is not None:
        ceilings.append(Ceiling(resource="flop/bf16", rate=theoretical, origin="theoretical"))
    row = {"name": "k", "time_s": time_s, "flop/bf16": flops, "byte/dram": 0.0,
           "origin.flops": "counted"}  # fmt: skip
    table = judge(Profile.of([row], Source(tool="test")), make_machine(ceilings=ceilings)).table
    found: str | None = table["above_roof"].item()
    return found


@pytest.mark.parametrize(
    ("flops", "expected"),
    [
        (100.0, None),
        (102.0, "noise"),
        (120.0, "wrong ceiling"),
        (200.0, "wrong ceiling"),
        (201.0, "wrong count"),
    ],
)
def test_a_measured_ceiling_is_wrong_below_the_theoretical_one(
    flops: float, expected: str | None
) -> None:
    assert cause(flops) == expected


def test_without_a_theoretical_ceiling_the_clock_or_the_count_is_blamed() -> None:
    assert cause(120.0, theoretical=None) == "boost clock"
    assert cause(142.0, theoretical=None) == "wrong count"


def test_a_row_of_no_time_is_not_above_the_roof() -> None:
    assert cause(50.0, time_s=0.0) is None
