"""A GPU's times beside another GPU's ceilings: said once, and only then."""

from __future__ import annotations

import msgspec
import pytest

from timeroof.core.profile import Profile, Source
from timeroof.machines.catalogue import find_machine, machine_for

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("named", "is_said"), [("a100-sxm4-80gb", True), ("h100-pcie", True), ("h100-sxm", False)]
)
def test_ceilings_of_another_gpu_are_said(named: str, is_said: bool) -> None:
    rows = [{"name": "gemm", "time_s": 1.0}]
    profile = Profile.of(rows, Source(tool="by hand"), device=H100)
    notes = machine_for(profile, find_machine(named))[1]
    said = [n for n in notes if n.startswith(f"Measured on h100-sxm, compared with {named}:")]
    assert [n.code for n in said] == (["other-device"] if is_said else [])


def test_own_figures_and_a_measured_machine_are_no_other_gpu() -> None:
    profile = Profile.of([{"name": "gemm", "time_s": 1.0}], Source(tool="by hand"), device=H100)
    mine = msgspec.structs.replace(find_machine("h100-sxm"), name="mine")
    assert machine_for(profile, mine)[1] == []
    assert machine_for(profile, msgspec.structs.replace(mine, name="here", device=H100))[1] == []


def test_the_papers_ceilings_are_of_the_gpu_that_it_measured() -> None:
    rows = [{"name": "gemm", "time_s": 1.0}]
    profile = Profile.of(rows, Source(tool="paper"), device="Tesla V100-SXM2-16GB")
    assert machine_for(profile, find_machine("v100-paper"))[1] == []
