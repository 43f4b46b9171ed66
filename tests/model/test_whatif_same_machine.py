"""What-if, like beside like: the same quantity before and after, in JSON, bars and charts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.conftest import make_machine
from tests.model.test_whatif import COMPUTE, LAUNCH, MEMORY, faster, run
from timeroof.api.reports import analyze
from timeroof.core.machine import Ceiling
from timeroof.core.profile import Profile, Source
from timeroof.model.whatif.project import WhatIf, what_if
from timeroof.views.compare_page import whatif_outputs
from timeroof.views.pictures.of_report import bars_figure
from timeroof.views.whatif import OUTSIDE, WITHOUT_IDLE, print_whatif, split_seconds

WAITING = [{**row, "idle_before_s": 7.0} for row in (COMPUTE, MEMORY, LAUNCH)]


def result(rows: list[dict[str, Any]], *machines: Any, **more: Any) -> WhatIf:
    profile = Profile.of(rows, Source(tool="t"), **more)
    return what_if(analyze(profile, make_machine()), machines)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e3), st.floats(0.0, 1e3), st.integers(0, 300)),
        min_size=1,
        max_size=5,
    )
)
def test_to_itself_every_row_is_what_it_was(rows: list[tuple[float, float, int]]) -> None:
    table = [
        {**COMPUTE, "name": f"k{i}", "time_s": t, "idle_before_s": idle, "launches": float(n)}
        for i, (t, idle, n) in enumerate(rows)
    ]
    document = result(table, make_machine()).document()
    for row in document["rows"]:
        there = row["machines"][0]
        assert there["predicted_s"] == there["low_s"] == there["high_s"] == row["time_s"]
        assert there["predicted_elapsed_s"] == row["elapsed_s"]
    machine = document["machines"][0]
    assert machine["by_limiter"] == pytest.approx(document["measured_by_limiter"])
    assert machine["predicted_s"] == pytest.approx(document["measured_s"])


def test_rows_are_kernels_alone_and_the_machine_has_the_idle_too() -> None:
    document = result(WAITING, faster(flop_fp32=2.0)).document()
    product = next(row for row in document["rows"] if row["name"] == "mm")
    assert product["time_s"] == 10.0
    assert product["elapsed_s"] == 17.0
    assert product["machines"][0]["predicted_s"] == pytest.approx(5.0)
    assert product["machines"][0]["predicted_elapsed_s"] == pytest.approx(12.0)
    machine = document["machines"][0]
    assert machine["predicted_s"] == pytest.approx(5.0 + 10.0 + 8.0 + 3 * 7.0)
    assert sum(machine["by_limiter"].values()) == pytest.approx(23.0)


def test_measured_and_predicted_bars_to_itself_are_split_alike() -> None:
    axes = bars_figure(result(WAITING, make_machine())).axes[0]
    bars: dict[float, list[tuple[float, Any]]] = {}
    for patch in axes.patches:
        bars.setdefault(patch.get_y(), []).append((patch.get_width(), patch.get_facecolor()))  # type: ignore[attr-defined]
    first, second = bars.values()
    assert [colour for _, colour in first] == [colour for _, colour in second]
    assert [s for s, _ in first] == pytest.approx([s for s, _ in second])
    assert sum(s for s, _ in first) == pytest.approx(28.0 + 21.0)


def test_the_terminal_shows_like_beside_like(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    print_whatif(result(WAITING, make_machine()).document())
    shown = capsys.readouterr().out
    assert shown.count(f"{OUTSIDE} 43 %") == 2
    assert WITHOUT_IDLE in shown
    print_whatif(result([COMPUTE], make_machine()).document())
    shown = capsys.readouterr().out
    assert OUTSIDE not in shown
    assert WITHOUT_IDLE not in shown


def test_the_page_says_which_seconds_kernels_have() -> None:
    assert WITHOUT_IDLE in whatif_outputs(result(WAITING, make_machine())).page()
    assert WITHOUT_IDLE not in whatif_outputs(result([COMPUTE], make_machine())).page()


def test_rows_that_overlap_shrink_to_the_whole() -> None:
    assert split_seconds({"compute": 6.0, "memory": 2.0}, 4.0) == {"compute": 3.0, "memory": 1.0}
    assert split_seconds({"compute": 6.0}, 6.0) == {"compute": 6.0}
    assert split_seconds({"compute": 0.0}, 0.0) == {"compute": 0.0}


def test_the_precision_that_it_has_changes_nothing() -> None:
    row = {**COMPUTE, "dtype": "fp32", "contraction_flops": 800.0}
    got = run([row], make_machine(), "fp32")
    assert got.low_s == got.predicted_s == got.high_s == 10.0


def cpu(*more: str, **changes: Any) -> Any:
    """A machine without matrix units."""
    ceilings = [c for c in make_machine().ceilings if c.resource != "flop/fp16-tensor"]
    extra = [Ceiling(resource=r, rate=200.0, origin="measured") for r in more]
    return make_machine(name="cpu", ceilings=[*ceilings, *extra], **changes)


PRODUCT = {**COMPUTE, "dtype": "fp32", "contraction_flops": 800.0}


def test_the_limiter_is_the_unit_that_is_used() -> None:
    got = run([PRODUCT], cpu("flop/bf16"), "bf16")
    assert got.table["limiter"].item() == "flop/bf16"
    assert got.notes == ("cpu has no flop/bf16-tensor: its flop/bf16 is used.",)
    tensor = run([PRODUCT], cpu("flop/bf16-tensor"), "bf16")
    assert tensor.table["limiter"].item() == "flop/bf16-tensor"
    assert not tensor.notes


def test_a_precision_that_a_machine_lacks_is_told() -> None:
    got = run([PRODUCT], cpu(), "fp8")
    assert got.table["limiter"].item() == "flop/fp32"
    assert "cpu has no unit for fp8 at all: products run on its flop/fp32" in got.notes[0]
    # Emulated on another unit: that one is named.
    emulating = cpu(emulated={"flop/fp16": "flop/fp32"})
    got = run([PRODUCT], emulating, "fp16")
    assert got.table["limiter"].item() == "flop/fp32"
    assert "no unit for fp16 at all" in got.notes[0]


def test_only_changes_of_limiter_that_matter_are_listed() -> None:
    turns = {**COMPUTE, "byte/dram": 40.0, "name": "turns"}
    for share, told in ((0.0005, False), (0.01, True)):
        row = {**turns, "time_s": 10.0 * share, "flop/fp32": 800.0 * share}
        row["byte/dram"] = 40.0 * share
        row["launches"] = 0.0
        machine = result([COMPUTE, row], faster(flop_fp32=4.0)).document()["machines"][0]
        assert ("flop/fp32 → byte/dram" in machine["limiter_changes_s"]) is told


def test_a_kernel_shorter_than_its_launches_is_above_no_roof() -> None:
    short = {**LAUNCH, "time_s": 2.0}
    assert not run([short], faster(flop_fp32=2.0)).notes


def test_a_machine_that_is_named_twice_stands_there_once() -> None:
    names = [
        m["name"] for m in result([COMPUTE], make_machine(), make_machine()).document()["machines"]
    ]
    assert names == ["toy"]
    both = result([COMPUTE], faster(flop_fp32=2.0), faster(flop_fp32=3.0))
    assert len(both.projections) == 2
