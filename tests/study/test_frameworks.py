"""Frameworks beside one another: every sentence follows from the numbers behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.study.factor_samples import study_machine
from timeroof.study.case import Case, Result
from timeroof.study.factors.across import across, executed_per_needed, frameworks_of, ways
from timeroof.study.grid import MAIN_VARIANT, OWN_LAYOUT, compared_cases
from timeroof.study.output.page import write_study
from timeroof.study.output.utilisation import way_tables
from timeroof.study.report import Study, judged_study

# Launches and seconds of every way of running, as in a run that was seen.
LSTM = {
    ("tensorflow", "eager"): (299, 30e-3), ("tensorflow", "graph"): (311, 740e-6),
    ("tensorflow", "xla"): (151, 340e-6), ("tensorflow", "session"): (277, 500e-6),
    ("jax", "eager"): (323, 6.2e-3), ("jax", "compiled"): (132, 57e-6),
    ("torch", "cell-loop"): (226, 600e-6), ("torch", "eager"): (6, 150e-6),
}  # fmt: skip
STORY = (
    "LSTM: JAX eager takes 109× as long as jit, TensorFlow eager takes 88× as"
    " long as XLA and PyTorch loop of cells takes 4.0× as long as fused layer."
)
# Seconds of one product in FP32 and in bf16.
PRODUCTS = {"torch": (2e-3, 1e-3), "jax": (2.4e-3, 9.6e-3), "tensorflow": (2.2e-3, 1.1e-3)}
CONV = {"torch": 60e-3, "jax": 143e-3, "tensorflow": 26e-3}


def samples(middle: float) -> list[float]:
    return [middle * (1 + 0.004 * ((i * 7) % 11 - 5)) for i in range(24)]


def result(case: Case, time_s: float, launches: float, flops: float, **labels: str) -> Result:
    return Result(
        case=case, status="done", samples_s=samples(time_s), launches=launches,
        amounts={"flop/fp32": flops, "byte/dram": flops / 20}, contraction_flops=flops,
        origins={"time": "measured", "flops": "counted", "launches": "counted"},
        labels={"clock": "wall", **labels}, load=0.0,
    )  # fmt: skip


def study(lstm: dict[tuple[str, str], tuple[float, float]] = LSTM) -> Study:
    found = []
    for (framework, variant), (launches, seconds) in lstm.items():
        case = Case(kernel="lstm", params={"batch": 16, "time_steps": 16, "features": 32, "hidden": 16},
                    pass_name="forward", framework=framework, variant=variant, threads=2)  # fmt: skip
        more = 17 / 16 if (framework, variant) == ("tensorflow", "eager") else 1.0
        because = {
            "formula_flops": "1572864",
            "executed_because": "Keras runs the cell 17 times for 16 steps",
        }
        found.append(
            result(case, seconds, launches, 1572864 * more, **(because if more > 1 else {}))
        )
    for framework, seconds in CONV.items():
        for layout in ("contiguous", "channels_last"):
            params: dict[str, int | str] = {"batch": 16, "filters": 64, "kernel": 3, "stride": 2,
                                            "channels": 64, "size": 112, "layout": layout}  # fmt: skip
            case = Case(kernel="conv2d", params=params, pass_name="forward", framework=framework,
                        variant=MAIN_VARIANT[framework], threads=2)  # fmt: skip
            own = layout == OWN_LAYOUT.get(framework, "contiguous")
            found.append(result(case, seconds * (1.0 if own else 1.5), 1, 3568435200))
    for framework, pair in PRODUCTS.items():
        for precision, seconds in zip(("fp32", "bf16"), pair, strict=True):
            case = Case(kernel="gemm", params={"m": 512, "n": 512, "k": 512}, pass_name="forward",
                        framework=framework, precision=precision, threads=2,
                        variant=MAIN_VARIANT[framework])  # fmt: skip
            found.append(result(case, seconds, 1, 2.0 * 512**3))
    return judged_study(found, study_machine())


def number(text: str) -> float:
    return float(re.search(r"([\d.]+)×", text)[1])  # type: ignore[index]


def test_every_way_stands_in_the_measured_order_with_its_launches_per_step() -> None:
    rows = study().rows
    lstm, conv = way_tables(rows)
    seconds = [w.row.time_s for w in ways(rows, "lstm")]
    assert seconds == sorted(seconds, reverse=True)
    assert len(seconds) == len(LSTM)
    assert lstm.lines[0].name == "TensorFlow eager"
    assert {line.name: line.per_step for line in lstm.lines}["PyTorch fused layer"] == "0.375"
    assert lstm.lines[0].executed == "1.06×"
    assert lstm.lines[0].because == "Keras runs the cell 17 times for 16 steps"
    assert [line.name.partition(" ")[0] for line in conv.lines] == ["JAX", "PyTorch", "TensorFlow"]
    # The colour of a framework is the charts' own.
    assert [line.series for line in conv.lines] == [0, 1, 2]


def test_the_launch_story_is_said_of_the_ways_that_differ_most() -> None:
    found = {one.factor: one for one in across(study().rows, study_machine())}
    launch = found["launch"]
    assert launch.sentence == STORY
    said = dict(re.findall(r"(JAX|TensorFlow|PyTorch)[a-z ]* takes ([\d.]+)×", launch.sentence))
    for name, framework in (("JAX", "jax"), ("TensorFlow", "tensorflow"), ("PyTorch", "torch")):
        seconds = [v[1] for k, v in LSTM.items() if k[0] == framework]
        assert float(said[name]) == pytest.approx(max(seconds) / min(seconds), rel=0.02)
    lines = dict(launch.lines)
    order = [lines["TensorFlow"].index(name) for name in ("eager", "graph", "session", "XLA")]
    assert order == sorted(order)
    assert lines["PyTorch"].startswith("loop of cells 600 µs (14.1 launches per time step)")


def test_another_order_is_shown_as_it_was_measured() -> None:
    turned = LSTM | {("tensorflow", "graph"): (311, 100e-6), ("torch", "cell-loop"): (226, 149e-6)}
    launch = next(one for one in across(study(turned).rows, None) if one.factor == "launch")
    text = dict(launch.lines)["TensorFlow"]
    assert text.index("XLA") < text.index("graph")
    effects = {e.group: e.verdict for e in launch.effects}
    assert effects["lstm in PyTorch"] != "slower"
    assert "PyTorch" not in launch.sentence
    fewer = LSTM | {("jax", "eager"): (100, 6.2e-3)}
    launch = next(one for one in across(study(fewer).rows, None) if one.factor == "launch")
    assert launch.sentence.startswith("LSTM: JAX eager takes")


def test_factors_across_frameworks_follow_from_their_rows() -> None:
    rows = study().rows
    found = {one.factor: one for one in across(rows, study_machine())}
    assert number(found["autotune"].sentence) == pytest.approx(143 / 26, rel=0.03)
    assert "in JAX jit as in TensorFlow graph" in found["autotune"].sentence
    layouts = {e.group: e.ratio.value for e in found["locality"].effects}
    assert sorted(round(v, 1) for v in layouts.values()) == [0.7, 1.5, 1.5]
    assert found["intensity"].sentence == (
        "TensorFlow eager executes 1.06× the products that lstm forward needs:"
        " Keras runs the cell 17 times for 16 steps."
    )
    precision = found["precision"]
    assert precision.sentence == (
        "Against FP32 the time of a matrix product in bf16 is 0.50× in PyTorch, 4.0× in JAX and"
        " 0.50× in TensorFlow."
    )
    ratios = [narrow / wide for wide, narrow in PRODUCTS.values()]
    assert [e.ratio.value for e in precision.effects] == pytest.approx(ratios, rel=0.03)
    more = [row for row in rows if (executed_per_needed(row) or 1) > 1]
    assert [row.framework for row in more] == ["tensorflow"]


def test_a_framework_that_cannot_be_told_is_named_in_the_sentence() -> None:
    rows = [
        row.__class__(**{**vars(row), "load": 0.8})
        if (row.op, row.framework, row.precision) == ("gemm", "jax", "bf16")
        else row
        for row in study().rows
    ]
    found = {one.factor: one for one in across(rows, study_machine())}
    assert found["precision"].sentence == (
        "Against FP32 the time of a matrix product in bf16 is 0.50× in PyTorch and 0.50× in"
        " TensorFlow; too close to tell on this run in JAX."
    )


def test_times_beside_other_programs_are_an_indication_between_frameworks() -> None:
    rows = [row.__class__(**{**vars(row), "load": 0.8}) for row in study().rows]
    found = {one.factor: one for one in across(rows, None)}
    assert "an indication only" in found["autotune"].sentence


def test_one_framework_has_nothing_to_be_compared_with() -> None:
    rows = [row for row in study().rows if row.framework == "torch"]
    assert frameworks_of(rows) == ["torch"]
    assert across(rows, None) == []
    assert way_tables(rows) == []


def test_the_page_begins_with_the_story_and_findings_name_more_work(tmp_path: Path) -> None:
    found = study()
    page = write_study(found, tmp_path).read_text(encoding="utf-8")
    assert STORY in page
    assert page.index("PyTorch loop of cells") < page.index("PyTorch fused layer")
    assert "The five factors across frameworks" in page
    titles = [f.title for f in found.report.findings if f.code == "study/work"]
    assert titles == ["TensorFlow eager executes 1.06× the products that lstm forward needs"]


def test_a_quick_comparison_sweeps_the_main_variant_and_takes_one_case_of_the_others() -> None:
    cases = compared_cases("lstm", ["torch", "jax", "tensorflow"], quick=True)
    swept = {(c.framework, c.variant) for c in cases if c.params["time_steps"] == 64}
    assert swept == {("torch", "eager"), ("jax", "compiled"), ("tensorflow", "graph")}
    assert {c.variant for c in cases if c.framework == "tensorflow"} == {
        "eager",
        "graph",
        "xla",
        "session",
    }
    assert {c.variant for c in cases if c.framework == "torch"} == {"eager", "cell-loop"}
    full = compared_cases("lstm", ["torch"], quick=False)
    assert {c.variant for c in full} == {"eager", "cell-loop", "compile"}
    layouts = {c.params["layout"] for c in compared_cases("conv2d", ["tensorflow"], quick=True)}
    assert layouts == {"contiguous", "channels_last"}
    given = compared_cases("conv2d", ["tensorflow"], quick=True, sweeps={"layout": ["contiguous"]})
    assert {c.params["layout"] for c in given} == {"contiguous"}


def test_all_five_factors_are_restated_across_frameworks_by_default(tmp_path: Path) -> None:
    from timeroof.cli.study_cases import Choices, designed_cases
    from timeroof.study.output.utilisation import factor_lines

    frameworks = ("torch", "jax", "tensorflow")
    choices = Choices(
        framework="torch", device="cpu", precisions=["fp32"], passes=None, caches=["warm"],
        threads=[1], variants=[], quick=True, frameworks=frameworks,
    )  # fmt: skip
    asked = {"names": ["lstm"], "choices": choices, "factors": [], "machine": None}
    cases = designed_cases(**asked, one_precision=True)  # type: ignore[arg-type]
    assert {(c.framework, c.kernel, c.precision, c.variant) for c in cases} == {
        (name, "gemm", precision, MAIN_VARIANT[name])
        for name in frameworks
        for precision in ("fp32", "bf16")
    }
    assert designed_cases(**asked, one_precision=False) == []  # type: ignore[arg-type]
    lines = factor_lines(study().report.findings)
    assert len(lines) == 5
    assert not [line.name for line in lines if "Not compared" in line.sentence]


def test_no_framework_is_needed_for_another() -> None:
    import subprocess
    import sys

    for module, others in (("jax_bench", "torch tensorflow keras"), ("tf_bench", "torch jax")):
        code = (
            "import sys\n"
            f"for name in '{others}'.split(): sys.modules[name] = None\n"
            f"import timeroof.study.worker.{module}, timeroof.study.worker.__main__"
        )
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_variant_that_the_named_frameworks_lack_is_refused_with_those_that_they_have(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from timeroof.cli.main import main

    words = ["study", "lstm", "--framework", "tensorflow,jax", "--variant", "cell-loop"]
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    assert main([*words, "--quick", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "lstm has no variant 'cell-loop'; lstm has eager, graph, xla, session, compiled" in said


def test_charts_have_a_colour_per_framework_and_the_264_published_rows() -> None:
    from timeroof.paper.build import build_paper
    from timeroof.study.output.page import combined_charts
    from timeroof.study.output.sweeps import overlay_of

    rows = study().rows
    more = [
        row.__class__(**{**vars(row), "id": 1000 + row.id, "params": {**row.params, "batch": 32}})
        for row in rows
    ]
    overlay = overlay_of(build_paper())
    charts = combined_charts([*rows, *more], study_machine(), overlay)
    assert len(charts) == 2
    for chart in charts.values():
        assert chart.series == ["JAX compiled", "PyTorch eager", "TensorFlow graph"]
        own = [case for case in chart.frames[0].cases if not case.other]
        assert {case.series for case in own} == {0, 1, 2}
    published = [frame for chart in charts.values() for frame in chart.frames[-1:]]
    assert sum(len(frame.cases) for frame in published) == 264
    assert all(case.other and case.time_s > 0 for frame in published for case in frame.cases)
