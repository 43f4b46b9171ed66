"""Every number of a row says how it came about, and its formula gives it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tests.recorded_data import DATA, needs_recorded_data
from tests.views.test_agreement import OURS, RECORDED, report_of
from timeroof.api.reports import Report, Why, analyze, load, save
from timeroof.core.columns import COLUMNS
from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, Source
from timeroof.views.run_summary import filled_in, print_why, why_words

cases = pytest.mark.parametrize("name", [*OURS, *RECORDED])
# Rows of one report that are asked: all of them where there are few.
MOST_ROWS = 150


def calculated(formula: str, sizes: dict[str, float]) -> float:
    """What a reader with a calculator gets: exact fractions, the usual operators."""
    exact = {name: Fraction(value) for name, value in sizes.items()}
    names = {"floor": math.floor, "ceil": math.ceil, "max": max, "min": min}
    python = formula.replace("·", "*").replace(" mod ", " % ")
    return float(eval(python, {"__builtins__": {}}, {**names, **exact}))


def asked(report: Report) -> list[Why]:
    """Answers of the longest rows and of some of the others."""
    ids = report.rows["id"].to_list()
    step = max(1, len(ids) // MOST_ROWS)
    return [report.why(i) for i in dict.fromkeys([*ids[:20], *ids[::step]])]


@cases
def test_every_formula_gives_its_number_and_no_number_lacks_an_answer(name: str) -> None:
    report = report_of(name)
    for found in asked(report):
        for line in found.lines:
            if line.value is None:
                assert line.unknown, line
                assert why_words(line).startswith("unknown because ")
            elif line.formula is not None:
                value = calculated(line.formula, line.sizes)
                assert math.isclose(value, line.value, rel_tol=1e-9, abs_tol=1e-15), line  # type: ignore[arg-type]
                # Six digits of each size are printed in its place.
                digits = 1e-5 * max(map(abs, line.sizes.values()), default=0.0)
                printed = calculated(filled_in(line.formula, line.sizes), {})
                assert math.isclose(printed, value, rel_tol=1e-4, abs_tol=digits), line
            else:
                assert line.source, line
        assert found.change


@cases
def test_every_number_of_a_row_is_unfolded(name: str) -> None:
    report = report_of(name)
    if not report.rows.height:
        return
    row = report.rows.row(0, named=True)
    told = {line.name: line.value for line in report.why(row["id"]).lines}
    left_out = {"id", "rank", "parent", "inside_overhead_box"}
    for column in (c for c in COLUMNS if c.prefix is None and c.unit is not None):
        value = row[column.name]
        if isinstance(value, int | float) and column.name not in left_out:
            assert told[column.name] == value, column.name
    for column_name in report.rows.columns:
        if column_name.startswith(("flop/", "byte/", "bound.")):
            assert told[column_name] == row[column_name]


def test_a_product_says_its_sizes() -> None:
    line = report_of("Kineto training").why(0).line("flop/bf16-tensor")
    assert line.formula == "2·M·N·K·calls"
    assert line.sizes == {"M": 4096, "N": 32768, "K": 1024, "calls": 3.0}
    assert why_words(line).startswith("= 2·M·N·K·calls = 2·4096·32768·1024·3; sizes of the call")


def test_unknown_amounts_say_why() -> None:
    found = report_of("padding").why(2)
    assert found.name == "dark"
    assert found.line("flop/fp32").unknown == (
        "no op is recorded for this kernel, so that its sizes are not known"
    )
    assert "bytes" in (found.line("achieved_byte_per_s").unknown or "")


@needs_recorded_data
def test_a_collective_asks_for_no_formula() -> None:
    report = load(DATA / "kineto/v100_dlrm_8rank")
    rows = report.rows.filter(pl.col("op") == "record_param_comms")
    said = {line.unknown for line in report.why(rows["id"][0]).lines if line.unknown}
    assert "the file does not say how many bytes the collective sends" in said
    assert not [words for words in said if words.startswith("no formula")]


def test_without_a_machine_the_answer_asks_for_one() -> None:
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 1.0}]
    found = analyze(Profile.of(rows, Source(tool="t")), None).why(0)
    assert "--machine" in (found.line("bound_s").unknown or "")
    assert found.line("achieved_flop_per_s").value == 1.0


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no row has the id 99999"):
        report_of("tidy").why(99999)


def test_a_saved_run_still_knows_its_formulas(tmp_path: Path) -> None:
    report = report_of("Kineto training")
    save(report, tmp_path / "run.troof")
    again = load(tmp_path / "run.troof")
    for row in report.rows["id"].to_list()[:20]:
        assert again.why(row).lines == report.why(row).lines


def test_a_printed_answer_reads_as_explain_row_does(capsys: pytest.CaptureFixture[str]) -> None:
    """`print(report.why(0))` is the command's text, not the dump of a struct."""
    answer = report_of("tidy").why(0)
    print_why(answer)
    told = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert str(answer).splitlines() == told
    assert told[0].startswith("Row 0: ")
    assert repr(answer).startswith("<timeroof.Why of row 0, ")
    hostile = msgspec.structs.replace(answer, short_name="<script>\x1b[2J")
    assert "<script>" not in hostile._repr_html_()
    assert "\x1b" not in str(hostile)
