"""Lines of compiled code, stated costs, seconds of a clean step, pages of runs without rows."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_machine
from timeroof import cost
from timeroof.api.reports import analyze
from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Report
from timeroof.live.building import why_nothing
from timeroof.live.costing import stated
from timeroof.live.recording import Described, ExternCall, GraphSeen, Recording, TensorSeen
from timeroof.live.torch import folded
from timeroof.views.overview import overview
from timeroof.views.page import html_page
from timeroof.views.run_summary import print_run
from timeroof_recorder.torch import GRAPH, SOURCE


def op(name: str, *shapes: tuple[int, ...], parent: int | None = None, scope: int = 0) -> Described:
    tensors = tuple(TensorSeen(s, "float", (), i, 0, 4, "cpu") for i, s in enumerate(shapes))
    return Described(name, parent, 1, -1, scope, "", tensors, ())


@pytest.mark.parametrize("line", [None, "b.py:9"])
def test_compiled_code_of_torchs_own_modules_has_the_line_that_calls_it(line: str | None) -> None:
    forward = GraphSeen("forward", (), (ExternCall("aten::addmm", None, line),))
    backward = GraphSeen("backward", (), ())
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
    graphs = [GraphSeen(phase, (), ()) for phase in (None, None, "backward")]
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
    assert "10.0 s step time" in text
    assert "· 1 step\n" in text
    assert re.search(r"idle .* 1\.00 s +10 % +Python between ops 1\.00 s", text)
    assert re.search(r"unexplained .* 2\.00 s +20 %", text)
    assert re.search(r"\nlong .* 6\.00 s", text)
    assert re.search(r"\nshort .* 1\.00 s", text)


@pytest.mark.parametrize(("count", "words"), [(1, "Only 1 step was seen"), (2, "2 steps were")])
def test_one_step_is_no_steps(count: int, words: str) -> None:
    recording = Recording(marker="auto")
    recording.frameworks, recording.steps_seen = [("torch", "2.9")], count
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
    assert ">0 s<" not in first
    assert "How fast could it be?" not in first
    assert 'href="#charts"' not in first
    assert rest.split(">", 1)[0].endswith(" hidden")


def test_a_step_that_was_only_seen_clean_keeps_its_time() -> None:
    first = overview(empty_report(0.25))
    assert (first.time, first.time_s) == ("250 ms", 0.25)
    assert (first.potential, first.parts, first.kernels) == ("", (), ())


def test_a_page_with_rows_keeps_its_charts_beside_an_empty_run() -> None:
    page = html_page(timed_run(4.0, 0.0), runs=[empty_report(None)])
    assert 'href="#charts"' in page
    assert '<section id="charts" aria-labelledby="charts-title">' in page
    assert page.count('class="box ladder"') == 1
