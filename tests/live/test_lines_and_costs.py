"""Whose line of MKL it is, stated costs, seconds of a clean step, pages of runs without rows."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import make_machine
from timeroof import cost
from timeroof.api.reports import analyze
from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Report
from timeroof.live.building import why_nothing
from timeroof.live.torch.contexts import SOURCE
from timeroof.live.torch.costing import stated
from timeroof.live.torch.inductor.calls import GRAPH, folded
from timeroof.live.torch.inductor.hooks import CompiledGraph, ExternCall
from timeroof.live.torch.mkl_calls import NOBODY, Caller, callers_of, may_call
from timeroof.live.torch.recording import Described, MklCall, Recording, TensorSeen
from timeroof.views.page import html_page
from timeroof.views.page.headline import cards
from timeroof.views.run_summary import print_run

ROUTINES = ("fft", "dgesdd", "dgetrf", "dorgqr", "sgemm", "dgemm_batch", "dtrsm", "cgemm3m")
OPS = (
    "aten::_fft_c2c", "aten::fft_fft", "aten::_linalg_svd", "aten::linalg_qr", "aten::bmm",
    "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::linalg_solve_triangular",
)  # fmt: skip


def op(name: str, *shapes: tuple[int, ...], parent: int | None = None, scope: int = 0) -> Described:
    tensors = tuple(TensorSeen(s, "float", (), i, 0, 4, "cpu") for i, s in enumerate(shapes))
    return Described(name, parent, 1, -1, scope, "", tensors, ())


def test_a_query_that_fits_beside_an_fft_goes_to_its_own_op() -> None:
    calls = [
        MklCall("fft", "", (), 40_000),
        MklCall("dgesdd", "A", (128, 128), 9_000),
        MklCall("dgesdd", "A", (128, 128), 2_000_000),
    ]
    callers = [
        Caller(10, 3_000, op("aten::fft_fft")),
        Caller(11, 70_000, op("aten::_fft_c2c")),
        Caller(12, 2_000, op("aten::linalg_svd")),
        Caller(13, 2_200_000, op("aten::_linalg_svd")),
    ]
    assert callers_of(calls, callers) == [11, 13, 13]


@pytest.mark.parametrize(
    ("routine", "callers", "others"),
    [
        ("dgesdd", ["aten::_linalg_svd"], ["aten::_linalg_eigh", "aten::_fft_c2c", "aten::bmm"]),
        ("sgetrf", ["aten::linalg_lu_factor_ex"], ["aten::linalg_qr", "aten::gelu_backward"]),
        ("zheevd", ["aten::_linalg_eigh"], ["aten::linalg_eig", "aten::linalg_lu_solve"]),
        ("dgeev", ["aten::linalg_eig"], ["aten::_linalg_eigh", "aten::_weight_int8pack_mm"]),
        ("strsm", ["aten::linalg_solve_triangular"], ["aten::linalg_cholesky_ex", "aten::bmm"]),
        ("sgemm", ["aten::bmm", "aten::_weight_int8pack_mm"], ["aten::linalg_solve_triangular"]),
        ("dgecon", ["aten::linalg_qr"], ["aten::bmm"]),
    ],
)
def test_each_routine_has_its_kind_of_op(
    routine: str, callers: list[str], others: list[str]
) -> None:
    assert all(may_call(op(name), routine) for name in callers)
    assert not any(may_call(op(name), routine) for name in others)


def test_lines_that_fit_no_op_are_nobodys() -> None:
    calls = [MklCall("fft", "", (), 5), MklCall("dgetrf", "", (8, 8), 5)]
    assert callers_of(calls, [Caller(1, 100, op("aten::bmm"), 1e6)]) == [NOBODY, NOBODY]
    assert callers_of(calls, []) == [NOBODY, NOBODY]


def test_an_op_that_has_all_its_products_takes_no_call_of_unknown_size() -> None:
    calls = [MklCall("sgemm", "NN", (8, 8, 8), 5), MklCall("sgemm_batch", "NN", (), 5)]
    attention = "aten::_scaled_dot_product_flash_attention_for_cpu"
    callers = [Caller(1, 9, op(attention), 2.0 * 8**3), Caller(2, 9, op("aten::bmm"), 1e4)]
    assert callers_of(calls, callers) == [1, 2]
    assert callers_of(calls, callers[:1]) == [1, 1]


def test_a_factorisation_of_a_products_sizes_is_not_that_product() -> None:
    calls = [MklCall("dorgqr", "", (128, 128, 128), 9), MklCall("dgemm", "NN", (128, 128, 128), 9)]
    callers = [
        Caller(1, 100, op("aten::linalg_qr", (128, 128))),
        Caller(2, 100, op("aten::mm", (128, 128), (128, 128)), 2.0 * 128**3),
    ]
    assert callers_of(calls, callers) == [1, 2]


@given(
    st.lists(st.tuples(st.sampled_from(ROUTINES), st.integers(1, 100)), max_size=12),
    st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 200)), max_size=8),
)
def test_every_line_goes_to_an_op_that_may_call_it_in_order(
    lines: list[tuple[str, int]], ops: list[tuple[str, int]]
) -> None:
    calls = [MklCall(routine, "", (), ns) for routine, ns in lines]
    callers = [Caller(i, float(ns), op(name)) for i, (name, ns) in enumerate(ops)]
    found = callers_of(calls, callers)
    for call, event in zip(calls, found, strict=True):
        assert event == NOBODY or may_call(callers[event].op, call.routine)
    for transforms in (True, False):
        order = [
            e for c, e in zip(calls, found, strict=True)
            if (c.routine == "fft") is transforms and e != NOBODY
        ]  # fmt: skip
        assert order == sorted(order)


@pytest.mark.parametrize("line", [None, "b.py:9"])
def test_compiled_code_of_torchs_own_modules_has_the_line_that_calls_it(line: str | None) -> None:
    forward = CompiledGraph(phase="forward", externs=[ExternCall("aten::addmm", None, line)])
    backward = CompiledGraph(phase="backward")
    ops = [
        op(f"{SOURCE}a.py:3", scope=7),
        op(f"{GRAPH}0", parent=0, scope=7),
        op("aten::addmm", parent=1),
        op(f"{GRAPH}1", scope=7),
        op("aten::mm", parent=3),
    ]
    found = folded(ops, (), [forward, backward])
    assert [o.source for o in found] == [None, None, line or "a.py:3", None, "a.py:3"]


def test_a_backward_graph_of_several_calls_has_no_line() -> None:
    graphs = [CompiledGraph(), CompiledGraph(), CompiledGraph(phase="backward")]
    ops: list[Described] = []
    for place, line in enumerate(("a.py:3", "a.py:4")):
        at = len(ops)
        ops += [op(SOURCE + line, scope=7), op(f"{GRAPH}{place}", parent=at, scope=7)]
        ops.append(op("aten::mm", parent=at + 1))
    ops += [op(f"{GRAPH}2", scope=7), op("aten::mm", parent=len(ops))]
    lines = [o.source for o in folded(ops, (), graphs) if o.name == "aten::mm"]
    assert lines == ["a.py:3", "a.py:4", None]


@pytest.mark.parametrize("value", [-1e6, -1, math.nan, math.inf, "many", "x\n" * 500, [1]])
@pytest.mark.parametrize("what", ["flops", "bytes", "by format"])
def test_a_cost_that_is_no_amount_is_refused_at_the_call(what: str, value: Any) -> None:
    given_ = {"flops": {"bf16": value}} if what == "by format" else {what: value}
    with pytest.raises(UsageError, match="state a number from 0 up") as caught:
        cost(**given_)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [None, 0, 0.0, 10**15, 1e300])
def test_a_cost_from_0_up_is_taken_and_so_is_an_unknown_one(value: float | None) -> None:
    torch = pytest.importorskip("torch")
    with torch.autograd.profiler.profile() as seen, cost(flops=value, bytes=value, name="r"):
        torch.ones(1)
    written = [found for e in seen.function_events if (found := stated(e.name)) is not None]
    assert written == [{"name": "r", "flops": value, "bytes": value}]


def timed_run(step_s: float, profiler_s: float) -> Report:
    rows = [
        {"name": "long", "time_s": 6.0, "flop/fp32": 50.0, "byte/dram": 1.0},
        {"name": "short", "time_s": 1.0, "flop/fp32": 5.0, "byte/dram": 1.0},
    ]
    profile = Profile.of(
        rows,
        Source(tool="test"),
        wall_s=step_s,
        kernel_s=7.0,
        idle_by_cause={"python": 1.0},
        steps=Steps(count=1, unprofiled_s=step_s, profiled_s=8.0 + profiler_s),
    )
    return analyze(profile, make_machine())


def test_the_summary_is_in_seconds_of_an_unprofiled_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_run(timed_run(10.0, 2.5))
    text = capsys.readouterr().err
    assert "a step takes 10.0 s, 10.5 s when profiled; 1 step seen" in text
    assert "step = ops 70 % + python 10 % + unexplained 20 %" in text
    assert re.search(r"idle +1\.00 s: python 1\.00 s\n", text)
    assert re.search(r"\n  long .* 6\.00 s", text)
    assert re.search(r"\n  short .* 1\.00 s", text)


@pytest.mark.parametrize(("count", "words"), [(1, "only 1 step was seen"), (2, "2 steps were")])
def test_one_step_is_no_steps(count: int, words: str) -> None:
    recording = Recording(marker="auto")
    recording.has_torch, recording.steps_seen = True, count
    assert words in why_nothing(recording)


def empty_report(wall_s: float | None) -> Report:
    notes = ("no step was found: call <b>timeroof.step()</b>",)
    rows = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
    profile = Profile.of(rows, Source(tool="test"), wall_s=wall_s, kernel_s=0.0, notes=notes)
    return analyze(profile, make_machine())


def test_the_page_of_a_run_without_rows_says_why_and_shows_no_charts() -> None:
    page = html_page(empty_report(None))
    first, rest = page.split('<section id="charts"', 1)
    assert "Nothing was measured." in first
    assert "no step was found: call &lt;b&gt;timeroof.step()" in first
    assert first.count(">unknown</dd>") == 4
    assert ">0 s<" not in first
    assert "Ladder of limits" not in first
    assert 'href="#charts"' not in first
    assert rest.split(">", 1)[0].endswith(" hidden")


def test_a_step_that_was_only_seen_clean_keeps_its_time() -> None:
    found = {card.key: (card.text, card.value) for card in cards(empty_report(0.25))}
    assert found["measured_s"] == ("250 ms", 0.25)
    assert found["recoverable_s"] == ("unknown", None)


def test_a_page_with_rows_keeps_its_charts_beside_an_empty_run() -> None:
    page = html_page(timed_run(4.0, 0.0), runs=[empty_report(None)])
    assert 'href="#charts"' in page
    assert '<section id="charts" aria-labelledby="charts-title">' in page
    assert page.count("Ladder of limits</h2>") == 1
