"""Warm cases that move nothing at DRAM are drawn and told at a nearer level, never dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.study.factor_samples import Truth, batch_sweep, study_machine, study_rows
from tests.study.test_output import parsed, study_of
from timeroof.live.recording import PrimitiveSeen
from timeroof.study.factors import conclusions
from timeroof.study.factors.intensity import conclude
from timeroof.study.judged_cases import LEVELS, Row, level_note, level_of
from timeroof.study.output.charted import combined_chart, heads, panel_lines
from timeroof.study.output.page import write_study
from timeroof.study.output.sweeps import chart_pair, panels
from timeroof.study.report import busy_sentence
from timeroof.study.worker.torch_bench import primitive_labels

amounts = st.one_of(st.none(), st.just(0.0), st.floats(1.0, 1e12))


def moving(rows: list[Row], op: str, **bytes_by: float | None) -> list[Row]:
    """The same rows with other bytes of one kernel; a number is a share of those at DRAM."""
    return [
        replace(
            row, bytes_by={v: s and s * (row.bytes_by["dram"] or 0) for v, s in bytes_by.items()}
        )
        if row.op == op
        else row
        for row in rows
    ]


def warm(rows: list[Row], op: str = "lstm") -> list[Row]:
    """The same rows with one kernel's bytes at L1 and none at DRAM."""
    return moving(rows, op, l1=2.0, dram=0.0)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(LEVELS, amounts)), min_size=1))
def test_the_level_serves_as_many_rows_as_any(moved: list[dict[str, float | None]]) -> None:
    counts = {v: sum(bool(own[v]) for own in moved) for v in LEVELS}
    chosen = level_of([Row(bytes_by=own) for own in moved])
    assert counts[chosen] == max(counts.values())
    nearer_to_dram = LEVELS[: LEVELS.index(chosen)]
    assert all(counts[v] < counts[chosen] for v in nearer_to_dram)


def test_no_bytes_are_no_intensity_and_no_error() -> None:
    row = Row(flops_by={"fp32": 8.0}, bytes_by={"dram": 0.0, "l1": 4.0})
    assert row.intensity_at("dram") is None
    assert row.intensity_at("l1") == 2.0
    assert level_note([Row(bytes_by={"dram": 1.0})], "dram") == ""
    rows = [Row(bytes_by={"dram": 0.0}), Row()]
    assert "1 of 2 cases move none at DRAM" in level_note(rows, "l1")
    assert "DRAM bytes of 1 of 2 cases are not known" in level_note(rows, "l1")


def test_a_warm_sweep_has_a_chart_with_points_at_l1() -> None:
    panel = panels(warm(study_rows(batch_sweep("lstm"))))[0]
    roofs = chart_pair(panel.rows, study_machine())
    assert roofs is not None
    assert (roofs.level, roofs.bytes_per_s) == ("l1", 400e9)
    chart = combined_chart([panel], study_machine(), None)
    assert chart is not None
    assert chart.roofs is not None
    assert chart.roofs.memory == "L1"
    assert all(case.bytes and case.bandwidth_time_s for case in chart.frames[0].cases)
    line = panel_lines(panel, None, roofs.level)[0]
    told = dict(zip(heads(roofs.level), line.cells, strict=True))
    assert told["L1 bytes"] == "3.20 MB"
    assert told["FLOP/B"] == "25"


def test_a_sweep_with_dram_bytes_stays_at_dram() -> None:
    rows = panels(study_rows(batch_sweep()))[0].rows
    roofs = chart_pair(rows, study_machine())
    assert roofs is not None
    assert roofs.memory_name == "DRAM"


def test_the_conclusion_names_a_warm_kernel_and_its_level() -> None:
    found = conclude(warm(study_rows([*batch_sweep(), *batch_sweep("lstm")])), study_machine())
    assert found is not None
    assert "lstm, batch 16 to 64: 4× the work" in found.why
    assert "lstm: intensity is per byte at L1" in found.why
    assert "conv2d: intensity is per byte" not in found.why
    assert {s["level"] for s in found.facts["sweeps"]} == {"dram", "l1"}


def test_the_conclusion_names_a_kernel_that_it_cannot_tell() -> None:
    rows = moving(study_rows([*batch_sweep(), *batch_sweep("lstm")]), "lstm", dram=None)
    found = conclude(rows, study_machine())
    assert found is not None
    assert "lstm: FLOPs or bytes are not known." in found.why


def test_a_busy_machine_still_names_every_kernel() -> None:
    truths = [
        Truth(op, {"batch": n}, n * 1e-4, n * n * 1e6, n * 1e5, found={"load": "0.5"})
        for op in ("conv2d", "lstm")
        for n in (16, 32, 64)
    ]
    found = conclusions(warm(study_rows(truths)), study_machine())[0]
    assert found.state == "open"
    assert found.open_because == "other programs used the processor"
    assert "lstm: intensity is per byte at L1" in found.why


@pytest.mark.parametrize(("load", "told"), [("0.150", False), ("0.151", True), ("0.9", True)])
def test_others_on_the_processor_are_told_and_marked(tmp_path: Path, load: str, told: bool) -> None:
    truths = batch_sweep()
    truths[0] = replace(truths[0], found={"load": load})
    study = study_of(truths)
    assert ("during 1 of 3 cases" in busy_sentence(study.rows)) == told
    page = parsed(write_study(study, tmp_path))
    assert ("Other programs used" in page.text) == told
    assert page.text.count("◆") == (1 if told else 0)


def test_where_nothing_moves_bytes_the_times_are_still_drawn(tmp_path: Path) -> None:
    study = study_of(batch_sweep())
    rows = moving(study.rows, "conv2d", dram=0.0)
    text = write_study(replace(study, rows=rows), tmp_path).read_text("utf-8")
    assert 'data-chart="combined-' not in text
    assert 'data-chart="sweep-0-0"' in text


def test_an_implementation_without_a_name_leaves_no_blank() -> None:
    seen = [PrimitiveSeen(("matmul", ""), 0, 2000)]
    assert primitive_labels(seen)["implementation"] == "matmul"
