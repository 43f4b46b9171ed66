"""What no fusion can avoid, per phase and for the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from tests.work.locality.cases import Case, cases
from timeroof.core.errors import InputError
from timeroof.work.locality.accesses import Accesses, CrossingBytes, ladder_bytes
from timeroof.work.locality.ideal import ideal_traffic

if TYPE_CHECKING:
    from timeroof.work.locality.accesses import Range

STEP: list[list[Range]] = [
    [("x", 0, 10, "read"), ("w", 0, 100, "read"), ("a", 0, 20, "write")],  # forward
    [("a", 0, 20, "read"), ("loss", 0, 4, "write")],
    [("a", 0, 20, "read"), ("w", 0, 100, "read"), ("g", 0, 100, "write")],  # backward
    [("g", 0, 100, "read"), ("w", 0, 100, "read"), ("w", 0, 100, "write")],  # optimizer
]
PHASES = ["forward", "forward", "backward", "optimizer"]


def test_a_training_step() -> None:
    ladder = ladder_bytes(Accesses.of(STEP, persistent={"w", "loss"}), PHASES)
    assert ladder.phases == {
        "forward": CrossingBytes(read_bytes=110, write_bytes=24),  # a is needed by backward
        "backward": CrossingBytes(read_bytes=120, write_bytes=100),
        "optimizer": CrossingBytes(read_bytes=200, write_bytes=100),
    }
    assert ladder.step == CrossingBytes(read_bytes=110, write_bytes=104)
    assert ladder.step.total_bytes == 214


@settings(max_examples=200, deadline=None)
@given(cases(longest=8, largest=4), st.data())
def test_the_rungs_are_in_order(case: Case, data: st.DataObject) -> None:
    """step ≤ sum of phases ≤ every op a phase of its own = no cache (but for dead writes)."""
    count = len(case.ops)
    names = st.sampled_from(["forward", "backward", "optimizer"])
    phases = data.draw(st.lists(names, min_size=count, max_size=count))
    ladder = ladder_bytes(case.accesses, phases)
    alone = ladder_bytes(case.accesses, [str(i) for i in range(count)])
    by_phase = sum(p.total_bytes for p in ladder.phases.values())
    by_op = sum(p.total_bytes for p in alone.phases.values())
    assert ladder.step.total_bytes <= by_phase <= by_op
    assert by_op <= ideal_traffic(case.accesses, 0).total_bytes
    assert ladder.step.total_bytes == ideal_traffic(case.accesses, None).total_bytes


def test_a_phase_reads_a_version_once_however_often_it_uses_it() -> None:
    ops: list[list[Range]] = [[("w", 0, 8, "read")], [("w", 0, 8, "read")], [("w", 0, 8, "read")]]
    ladder = ladder_bytes(Accesses.of(ops), ["forward", "backward", "forward"])
    assert ladder.phases["forward"].read_bytes == 8
    assert ladder.phases["backward"].read_bytes == 8


def test_every_op_needs_a_phase() -> None:
    with pytest.raises(InputError):
        ladder_bytes(Accesses.of(STEP), ["forward"])
