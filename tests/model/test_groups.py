"""Lists of the largest kernels: always there, with rates only where all amounts are known."""

from __future__ import annotations

import pytest

from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source
from timeroof.model.totals import kernel_groups

SOURCE = Source(tool="test")
ROWS = [
    {"name": "mm", "time_s": 2e-3, "flop/fp32": 4e9, "byte/dram": 2e6, "idle_before_s": 1e-3},
    {"name": "mm", "time_s": 1e-3, "flop/fp32": 2e9, "byte/dram": 1e6, "phase": "backward"},
    {"name": "mystery", "time_s": 5e-3, "flop/fp32": None, "byte/dram": None},
]


@pytest.mark.parametrize("machine", [None, "a100-sxm4-80gb"])
def test_every_kernel_is_listed_by_time_with_or_without_a_machine(machine: str | None) -> None:
    groups = kernel_groups(analyze(Profile.of(ROWS, SOURCE), machine).rows)
    assert groups["short_name"].to_list() == ["mystery", "mm"]
    assert groups["time_s"].to_list() == pytest.approx([5e-3, 3e-3])
    assert groups["achieved_flop_per_s"].to_list() == [None, pytest.approx(2e12)]
    assert groups["achieved_byte_per_s"].to_list() == [None, pytest.approx(1e9)]
    assert groups["idle_before_s"].to_list() == [None, pytest.approx(1e-3)]


def test_one_unknown_row_makes_the_rate_of_its_kernel_unknown() -> None:
    rows = [*ROWS[:2], {"name": "mm", "time_s": 1e-6, "flop/fp32": None, "byte/dram": 1.0}]
    line = kernel_groups(analyze(Profile.of(rows, SOURCE), None).rows).row(0, named=True)
    assert line["achieved_flop_per_s"] is None
    assert line["achieved_byte_per_s"] is not None


def test_seconds_of_several_ranks_are_those_of_a_mean_one() -> None:
    rows = [{"name": "mm", "time_s": 1.0, "rank": rank} for rank in range(4)]
    groups = kernel_groups(analyze(Profile.of(rows, SOURCE), None).rows)
    assert groups["time_s"].to_list() == [1.0]
    assert len(groups["rows"][0]) == 4
