"""The memory level that charts begin at, and the units of operations."""

from __future__ import annotations

import math
import re

import pytest

from tests.conftest import make_machine
from tests.views.live_sample import live_report
from tests.views.samples import step_report
from timeroof.api.reports import analyze
from timeroof.core.machine import Ceiling
from timeroof.core.profile import Profile, Source
from timeroof.core.units import format_rate
from timeroof.views.page import html_page
from timeroof.views.page.payload import first_level, run_payload
from timeroof.views.parts import amounts_line
from timeroof.views.pictures.ceilings import machine_roofline
from timeroof.views.pictures.frame import Unit
from timeroof.views.pictures.marks import say_what_is_missing
from timeroof.views.pictures.of_report import report_figure


@pytest.mark.parametrize(
    ("dram", "level"),
    [(0.0, "byte/l2"), (1e-3, "byte/l2"), (8.0, "byte/dram")],
)
def test_charts_begin_where_bytes_are(dram: float, level: str) -> None:
    report = live_report(dram=dram)
    assert first_level(report) == level
    assert run_payload(report, "r")["level"] == level
    # The headline's pair is fixed (docs/model.md) and stays.
    assert report.verdicts.pair is not None
    assert report.verdicts.pair.memory == "byte/dram"


def test_dram_of_most_rows_is_kept_and_that_of_few_is_not() -> None:
    def made(*dram: float) -> str | None:
        rows = [{"name": f"k{i}", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": b, "byte/l2": 10.0}
                for i, b in enumerate(dram)]  # fmt: skip
        return first_level(analyze(Profile.of(rows, Source(tool="t")), make_machine()))

    assert made(1.0, 1.0, 0.0, 0.0) == "byte/dram"
    assert made(9.0, 0.0, 0.0) == "byte/dram"  # the largest bound is there
    assert made(5.0, 0.0, 0.0) == "byte/l2"


def test_large_runs_begin_at_dram_and_runs_without_bytes_nowhere() -> None:
    assert first_level(step_report()) == "byte/dram"
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 1.0}]
    assert first_level(analyze(Profile.of(rows, Source(tool="t")), make_machine())) is None


def test_pictures_begin_at_the_same_level() -> None:
    figure = report_figure([live_report()])
    assert figure.axes[0].get_xlabel() == "bytes moved at L2 (ring)"


def test_a_picture_tells_no_bytes_from_unknown_ones() -> None:
    figure = machine_roofline(make_machine())
    axes = figure.axes[0]
    units = [Unit("a", 1.0, {"l2": 0.0}, 1.0), Unit("b", 1.0, {"l2": math.nan}, 1.0)]
    say_what_is_missing(axes, units, "l2")
    said = axes.texts[-1].get_text()
    assert "not drawn: 1 without bytes at L2" in said
    assert "not drawn: 1 without known bytes" in said


def test_integer_operations_are_no_flops() -> None:
    assert format_rate("flop/int8-tensor", 1.98e15) == "1.98 POP/s"
    figure = machine_roofline(make_machine(ceilings=[
        Ceiling(resource="flop/int8", rate=8.62e11, origin="measured"),
        Ceiling(resource="flop/int8", rate=9.36e11, origin="theoretical"),
        Ceiling(resource="flop/fp32", rate=2.35e11, origin="measured"),
        Ceiling(resource="byte/dram", rate=6.27e10, origin="measured"),
    ]))  # fmt: skip
    texts = {t.get_text() for t in figure.axes[0].texts}
    assert {"862 GOP/s", "936 GOP/s", "235 GFLOP/s"} <= texts
    assert figure.axes[0].get_ylabel() == "FLOP/s (integers: OP/s)"
    assert machine_roofline(make_machine()).axes[0].get_ylabel() == "FLOP/s"


def test_the_page_counts_integers_apart() -> None:
    report = live_report(**{"flop/int8": 4e9})
    assert amounts_line(report.totals).startswith("210 FLOP, 4.00 GOP, 90.0 B at L2, 0 B at DRAM")
    row = re.search(r">flop/int8</th>.*?</tr>", html_page(report), re.DOTALL)
    assert row is not None
    assert "400 OP/s" in row[0]
