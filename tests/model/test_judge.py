"""Every word of the verdict against a case that can be done in the head."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
import pytest

from tests.conftest import make_machine
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import Profile, Source
from timeroof.machines.catalogue import find_machine
from timeroof.model.judge import RoofPair, judge


def verdict(machine: Machine | None, pair: RoofPair | None = None, **row: Any) -> dict[str, Any]:
    profile = Profile.of([{"name": "k", "time_s": 1.0, **row}], Source(tool="test"))
    return judge(profile, machine, pair=pair).table.row(0, named=True)


def test_bounds_are_amounts_over_rates(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 50.0, "byte/dram": 8.0, "byte/l2": 8.0, "launches": 3})
    assert got["bound.flop/fp32"] == pytest.approx(0.5)
    assert got["bound.byte/dram"] == pytest.approx(0.8)
    assert got["bound.byte/l2"] == pytest.approx(0.2)
    assert got["bound.launch"] == pytest.approx(0.3)
    assert got["limiter"] == "byte/dram"
    assert got["work_bound_s"] == pytest.approx(0.8)
    assert got["overhead_time_s"] == pytest.approx(0.3)
    assert got["bound_s"] == pytest.approx(0.8)
    assert got["gap_s"] == pytest.approx(0.2)
    assert got["kernel_efficiency"] == pytest.approx(0.8)
    assert got["efficiency"] == pytest.approx(0.8)
    assert got["ai"] == pytest.approx(50 / 8)


def test_products_with_padding_are_counted_but_not_owed(machine: Machine) -> None:
    row = {"flop/fp32": 50.0, "byte/dram": 1.0, "padding_flops": 10.0}
    got = verdict(machine, **row)
    assert got["bound.flop/fp32"] == pytest.approx(0.4)
    assert got["ai"] == pytest.approx(40)
    assert verdict(machine, **row | {"padding_flops": None})["bound_s"] == pytest.approx(0.5)
    assert (
        verdict(machine, **row | {"flop/fp32": 0.0, "padding_flops": 0.0})["bound.flop/fp32"] == 0
    )


def test_launching_overlaps_on_a_queue_and_adds_without_one(machine: Machine) -> None:
    row = {"flop/fp32": 50.0, "byte/dram": 1.0, "launches": 3}
    assert verdict(machine, **row)["bound_s"] == pytest.approx(0.5)
    synchronous = make_machine(launching="synchronous")
    assert verdict(synchronous, **row)["bound_s"] == pytest.approx(0.8)
    assert verdict(synchronous, **row)["work_bound_s"] == pytest.approx(0.5)


def test_launch_limits_many_small_launches(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 1.0, "byte/dram": 1.0, "launches": 20})
    assert got["limiter"] == "launch"
    assert got["inside_overhead_box"] is True
    assert got["paper_class"] == "overhead"
    assert got["gap_s"] == 0.0
    assert got["efficiency"] == pytest.approx(2.0)
    assert got["above_roof"] is None


def test_a_row_that_does_nothing_is_overhead_in_any_order_of_columns(machine: Machine) -> None:
    amounts = {"flop/fp32": 0.0, "byte/dram": 0.0, "byte/l2": 0.0}
    for names in (list(amounts), list(amounts)[::-1]):
        named = {n: amounts[n] for n in names}
        got = verdict(machine, launches=0, time_s=0.2, **named)
        assert got["limiter"] == "launch"
        assert got["gap_s"] == pytest.approx(0.2)
        # Launching does not explain more than two launches.
        assert verdict(machine, launches=0, time_s=0.21, **named)["limiter"] == "latency"
    # Any work at all, and it is the work that limits; unknown work stays unknown.
    some = amounts | {"byte/l2": 1.0}
    assert verdict(machine, launches=0, time_s=0.2, **some)["limiter"] == "byte/l2"
    assert verdict(machine, launches=0, **amounts | {"flop/fp32": None})["limiter"] == "unknown"


def test_idle_before_a_kernel_counts_as_elapsed(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 50.0, "byte/dram": 1.0, "idle_before_s": 1.0})
    assert got["kernel_efficiency"] == pytest.approx(0.5)
    assert got["efficiency"] == pytest.approx(0.25)
    assert got["gap_s"] == pytest.approx(1.5)


def test_idle_beyond_launching_is_a_gap_even_inside_the_box(machine: Machine) -> None:
    row = {"time_s": 0.05, "flop/fp32": 1.0, "byte/dram": 0.1, "launches": 1}
    assert verdict(machine, **row)["gap_s"] == 0.0
    starved = verdict(machine, **row, idle_before_s=2.0)
    assert starved["inside_overhead_box"] is True
    assert starved["gap_s"] == pytest.approx(2.05 - 0.1)


def test_unknown_amounts_give_an_unknown_limiter(machine: Machine) -> None:
    profile = Profile.of(
        [
            {"name": "bytes unknown", "time_s": 1.0, "flop/fp32": 50.0, "byte/dram": None},
            {"name": "flops unknown", "time_s": 1.0, "flop/fp32": None, "byte/dram": 5.0},
            {"name": "explained", "time_s": 1.0, "flop/fp32": 95.0, "byte/dram": None},
            {"name": "nothing", "time_s": 1.0, "flop/fp32": None, "byte/dram": None},
        ],
        Source(tool="test"),
    )
    table = judge(profile, machine).table
    limiters = dict(zip(profile.kernels["name"], table["limiter"], strict=True))
    assert limiters == {
        "bytes unknown": "unknown",
        "flops unknown": "unknown",
        "explained": "flop/fp32",
        "nothing": "unknown",
    }
    assert table["ai"].to_list() == [None] * 4
    known = table.filter(pl.col("limiter") != "unknown")
    assert known["gap_s"].null_count() == 0
    unknown = table.filter(pl.col("limiter") == "unknown")
    assert unknown["gap_s"].null_count() == unknown["efficiency"].null_count() == 3


def test_a_tensor_metric_that_was_not_collected_leaves_flops_unknown(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 1.0, "flop/fp16-tensor": None, "byte/dram": 1.0})
    assert got["limiter"] == "unknown"
    assert got["bound.flop/fp32"] == pytest.approx(0.01)


def test_zero_flops_are_known(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 0.0, "byte/dram": 5.0})
    assert got["limiter"] == "byte/dram"
    assert got["ai"] == 0.0
    assert (got["compute_time_s"], got["bandwidth_time_s"]) == (0.0, 1.0)
    assert got["paper_class"] == "bandwidth"


def test_copies_have_no_flops_by_nature(machine: Machine) -> None:
    got = verdict(machine, kind="copy", **{"byte/dram": 5.0})
    assert got["limiter"] == "byte/dram"


def test_precisions_overlap_and_links_count(machine: Machine) -> None:
    got = verdict(
        machine,
        **{"flop/fp32": 50.0, "flop/fp16-tensor": 120.0, "byte/dram": 1.0, "link/nvlink": 4.0},
    )
    assert got["work_bound_s"] == pytest.approx(0.8)
    assert got["limiter"] == "link/nvlink"


def test_faults_bound_but_are_not_work(machine: Machine) -> None:
    got = verdict(machine, **{"flop/fp32": 1.0, "byte/dram": 1.0, "fault": 1.6})
    assert got["limiter"] == "fault"
    assert got["bound_s"] == pytest.approx(0.8)
    assert got["work_bound_s"] == pytest.approx(0.1)
    assert got["above_roof"] is None


def test_time_coordinates_keep_the_larger_at_run_time(machine: Machine) -> None:
    compute = verdict(machine, time_s=2.0, **{"flop/fp32": 100.0, "byte/dram": 5.0})
    assert (compute["compute_time_s"], compute["bandwidth_time_s"]) == (2.0, 1.0)
    assert compute["paper_class"] == "compute"
    memory = verdict(machine, time_s=2.0, **{"flop/fp32": 25.0, "byte/dram": 10.0})
    assert (memory["compute_time_s"], memory["bandwidth_time_s"]) == (0.5, 2.0)
    assert memory["paper_class"] == "bandwidth"


def test_time_coordinates_use_the_highest_roof_that_the_run_uses(machine: Machine) -> None:
    row = {"flop/fp32": 100.0, "flop/fp16-tensor": 300.0, "byte/dram": 20.0}
    headline = verdict(machine, time_s=4.0, **row)
    assert headline["compute_time_s"] == pytest.approx(4.0)
    assert headline["bandwidth_time_s"] == pytest.approx(4.0)
    assert headline == verdict(machine, RoofPair(), time_s=4.0, **row)
    named = verdict(machine, RoofPair("flop/fp32"), time_s=4.0, **row)
    assert named["bandwidth_time_s"] == pytest.approx(2.0)
    assert named["bound_s"] == headline["bound_s"]
    unused = verdict(machine, time_s=4.0, **(row | {"flop/fp16-tensor": 0.0}))
    assert unused["compute_time_s"] == pytest.approx(2.0)
    assert (
        verdict(machine, time_s=1.0, **{"flop/fp32": 0.0, "byte/dram": 0.0})["compute_time_s"]
        is None
    )


def test_a_pair_without_ceilings_gives_no_coordinates(machine: Machine) -> None:
    got = verdict(machine, RoofPair("flop/fp64", "byte/l3"), **{"flop/fp32": 1.0, "byte/dram": 1.0})
    assert got["compute_time_s"] is None
    assert got["paper_class"] is None


def test_without_a_machine_nothing_is_bounded() -> None:
    got = verdict(None, **{"flop/fp32": 1.0, "byte/dram": 1.0})
    assert got["limiter"] == "unknown"
    assert got["bound_s"] is None
    assert got["gap_s"] is None
    assert got["efficiency"] is None


def test_a_resource_without_ceiling_is_noted(machine: Machine) -> None:
    profile = Profile.of(
        [{"name": "k", "time_s": 1.0, "flop/fp64": 5.0, "byte/dram": 1.0}], Source(tool="test")
    )
    verdicts = judge(profile, machine)
    assert any("no ceiling for FP64" in note for note in verdicts.notes)
    assert "bound.flop/fp64" not in verdicts.table.columns


def test_emulated_precision_meets_the_unit_that_runs() -> None:
    machine = make_machine(emulated={"flop/bf16": "flop/fp32"})
    profile = Profile.of(
        [{"name": "k", "time_s": 1.0, "flop/bf16": 50.0, "byte/dram": 1.0}], Source(tool="test")
    )
    verdicts = judge(profile, machine)
    assert verdicts.table["bound.flop/bf16"][0] == pytest.approx(0.5)
    assert any("emulated" in note for note in verdicts.notes)


def test_scope_chooses_the_roof_of_one_core() -> None:
    machine = make_machine(
        ceilings=[
            Ceiling(resource="flop/fp32", rate=100.0, origin="measured"),
            Ceiling(resource="flop/fp32", rate=50.0, origin="measured", scope="core", threads=1),
            Ceiling(resource="launch", rate=10.0, origin="measured"),
        ]
    )
    profile = Profile.of([{"name": "k", "time_s": 1.0, "flop/fp32": 50.0}], Source(tool="test"))
    assert judge(profile, machine).table["bound.flop/fp32"][0] == 0.5
    core = judge(profile, machine, scope="core").table
    assert core["bound.flop/fp32"][0] == 1.0
    assert core["bound.launch"][0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ({"byte/dram": 40.0, "flop/fp32": 1.0}, "cache-resident"),
        ({"byte/dram": 400.0, "flop/fp32": 1.0, "time_s": 39.0}, "noise"),
        ({"byte/dram": 400.0, "flop/fp32": 1.0}, "wrong ceiling"),
        ({"byte/dram": 400.0, "flop/fp32": 1.0, "origin.bytes/dram": "counted"}, "wrong count"),
        ({"byte/dram": 1.0, "flop/fp32": 120.0}, "boost clock"),
        ({"byte/dram": 1.0, "flop/fp32": 102.0}, "noise"),
        ({"byte/dram": 1.0, "flop/fp32": 300.0, "origin.flops": "counted"}, "wrong count"),
        ({"byte/dram": 1.0, "flop/fp32": 300.0}, "wrong ceiling"),
        ({"byte/dram": 1.0, "flop/fp32": 1.0, "link/nvlink": 10.0}, "wrong ceiling"),
        ({"byte/dram": 1.0, "flop/fp32": 120.0, "time_spread": 0.3}, None),
        ({"byte/dram": 1.0, "flop/fp32": 100.0}, None),
    ],
)
def test_above_roof_names_the_likely_cause(
    machine: Machine, row: dict[str, Any], cause: str | None
) -> None:
    assert verdict(machine, **row)["above_roof"] == cause


def test_above_roof_is_not_clipped(machine: Machine) -> None:
    got = verdict(machine, **{"byte/dram": 1.0, "flop/fp32": 300.0})
    assert got["kernel_efficiency"] == pytest.approx(3.0)
    assert got["gap_s"] == pytest.approx(-2.0)


def test_unknown_time_keeps_bounds_only(machine: Machine) -> None:
    got = verdict(machine, time_s=None, **{"byte/dram": 1.0, "flop/fp32": 300.0})
    assert got["bound_s"] == pytest.approx(3.0)
    assert got["efficiency"] is None
    assert got["limiter"] == "flop/fp32"


def test_an_empty_profile_is_judged(machine: Machine, source: Source) -> None:
    empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64, "flop/fp32": pl.Float64})
    assert judge(Profile.of(empty, source), machine).table.height == 0


def test_a_cpu_run_on_a_devices_ceilings_has_a_note(source: Source) -> None:
    op = {"name": "mm", "kind": "op", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 1.0}
    queue, eager = make_machine(), make_machine(launching="synchronous")

    def told(rows: list[dict[str, object]], machine: Machine) -> bool:
        return any(n.code == "other-device" for n in judge(Profile.of(rows, source), machine).notes)

    assert told([op], queue)
    assert not told([op], eager)
    assert not told([op, {**op, "kind": "kernel"}], queue)


def pair_of(rows: list[dict[str, Any]], **asked: Any) -> tuple[str, str] | None:
    return judge(Profile.of(rows, Source(tool="t")), find_machine("h100-sxm"), **asked).pair


def test_the_pair_is_the_highest_roof_in_use_and_dram() -> None:
    row = {"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "flop/bf16-tensor": 2.0, "byte/dram": 1.0}
    assert pair_of([row]) == ("flop/bf16-tensor", "byte/dram")


def test_without_flops_the_pair_is_one_that_deep_learning_meets() -> None:
    compute, _ = pair_of([{"name": "k", "time_s": 1.0, "byte/dram": 1.0}]) or ("", "")
    assert compute in ("flop/fp16-tensor", "flop/bf16-tensor")


def test_without_dram_bytes_the_pair_has_the_level_that_the_file_has() -> None:
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "byte/l1": 2.0}]
    assert pair_of(rows) == ("flop/fp32", "byte/l1")
    assert pair_of(rows, roof="flop/fp64") == ("flop/fp64", "byte/l1")


def test_what_neither_launching_nor_work_explains_is_latency(machine: Machine) -> None:
    small = {"flop/fp32": 1.0, "byte/dram": 0.1}
    assert verdict(machine, time_s=0.2, **small)["limiter"] == "launch"
    assert verdict(machine, time_s=0.21, **small)["limiter"] == "latency"
    # A kernel's own floor is part of what a launch costs.
    slow = msgspec.structs.replace(machine, kernel_floor_s=0.2)
    assert verdict(slow, time_s=0.4, **small)["limiter"] == "launch"
    # A small LSTM at a hundredth of the compute roof is not bound by compute.
    lstm = {"flop/fp32": 20.0, "byte/dram": 0.1}
    assert verdict(machine, time_s=4.0, **lstm)["limiter"] == "flop/fp32"
    assert verdict(machine, time_s=4.1, **lstm)["limiter"] == "latency"


def test_a_collective_needs_only_what_it_sends() -> None:
    machine = make_machine()
    row = {"kind": "collective", "flop/fp32": None, "byte/dram": None, "time_s": 2.0}
    assert verdict(machine, **row, **{"link/nvlink": 5.0})["limiter"] == "link/nvlink"
    assert verdict(machine, **row, **{"link/nvlink": None})["limiter"] == "unknown"


def test_no_known_work_beside_unknown_work_is_no_bound(machine: Machine) -> None:
    assert verdict(machine, **{"flop/fp32": None, "byte/dram": 0.0})["work_bound_s"] is None
    assert verdict(machine, **{"flop/fp32": None, "byte/dram": 5.0})["work_bound_s"] == 0.5
    assert verdict(machine, **{"flop/fp32": 0.0, "byte/dram": 0.0})["work_bound_s"] == 0.0
