"""Synthetic measurements with a known cause: the analysis finds that cause and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from tests.study.factor_samples import (
    DRAM,
    PEAK,
    Truth,
    algorithm_truths,
    batch_sweep,
    cache_truths,
    declared,
    intensity_truths,
    launch_truths,
    layout_truths,
    precision_truths,
    study_machine,
    study_report,
    study_rows,
    working_set_truths,
)
from timeroof.study.factors import Conclusion, conclude, conclusions
from timeroof.study.factors.published import paper_report, published_cases
from timeroof.study.judged_cases import parameters_of

SEEDS = range(6)


def found(truths: list[Truth], **options: object) -> dict[str, Conclusion]:
    rows = study_rows(truths, **options)
    return {c.factor: c for c in conclusions(rows, study_machine())}


def causes(truths: list[Truth], **options: object) -> set[str]:
    return {name for name, c in found(truths, **options).items() if c.found}


CAUSES: list[tuple[str, Callable[[], list[Truth]]]] = [
    ("intensity", intensity_truths),
    ("launch", launch_truths),
    ("locality", layout_truths),
    ("locality", cache_truths),
    ("locality", working_set_truths),
    ("autotune", algorithm_truths),
    ("precision", precision_truths),
]


@pytest.mark.parametrize(("cause", "truths"), CAUSES, ids=[f"{c}-{t.__name__}" for c, t in CAUSES])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_cause_is_found_and_no_other(
    cause: str, truths: Callable[[], list[Truth]], seed: int
) -> None:
    assert causes(truths() + batch_sweep("pool"), seed=seed, noise=0.04) == {cause}


def test_all_causes_together_are_told_apart() -> None:
    everything = [truth for _, truths in CAUSES[1:] for truth in truths()]
    assert causes(everything) == {"launch", "locality", "autotune", "precision"}


def test_two_causes_at_once_are_both_found() -> None:
    assert causes(launch_truths() + layout_truths()) == {"launch", "locality"}


def test_a_machine_is_not_needed_for_times_alone() -> None:
    rows = study_rows(algorithm_truths() + launch_truths() + precision_truths())
    without = {c.factor for c in conclusions(rows, None) if c.found}
    assert without == {"autotune", "launch", "precision"}


def test_findings_carry_the_evidence() -> None:
    finding = {f.code: f for f in conclude(study_rows(layout_truths()), study_machine())}
    locality = finding["study/locality"]
    assert locality.evidence["found"] is True
    first = locality.evidence["comparisons"][0]
    assert first["verdict"] == "faster"
    assert first["reorders"] == [2.0, 0.0]
    assert first["interval"][0] <= first["time_ratio"] <= first["interval"][1]
    assert locality.kernels
    assert "channels last" in str(locality.action)


def test_a_cold_cache_that_seems_faster_leads_no_sentence() -> None:
    """It can only cost: less is chance, and nothing is said of how much."""
    locality = found(cache_truths(0.79))["locality"]
    assert not locality.found
    assert "takes no longer with cold caches than with warm ones" in locality.sentence
    both = found(cache_truths(0.79) + layout_truths())["locality"]
    assert both.found
    assert "cold" not in both.sentence


def test_nothing_compared_concludes_nothing() -> None:
    assert conclude(study_rows([Truth("gemm", {"m": 8}, 1e-3)]), study_machine()) == []


def test_launch_bound_sweep_is_not_taken_for_intensity() -> None:
    """Hidden size raises FLOP per byte eightfold while launching alone takes the time."""
    flat = [
        Truth("lstm", {"hidden": h}, 1e-3, flops=1e4 * h * h, size_bytes=1e4 * h, launches=200)
        for h in (16, 32, 64, 128)
    ]
    conclusion = found(flat)["intensity"]
    assert not conclusion.found
    assert "64× the work" in conclusion.sentence
    assert "The limit changes from overhead to compute." in conclusion.why


def test_compute_bound_sweep_gains_nothing_from_intensity() -> None:
    rich = [
        Truth("conv2d", {"filters": f}, 1.5 * f * 1e7 / PEAK, f * 1e7, 1e5) for f in (64, 128, 256)
    ]
    assert not found(rich)["intensity"].found


def test_exponents_of_a_known_law() -> None:
    """FLOPs as the square, bytes as the first power, time as FLOPs."""
    law = [
        Truth("gemm", {"n": n}, 2e-11 * n * n * 1e3, n * n * 1e3, n * 1e3) for n in (100, 200, 400)
    ]
    sweep = found(law, noise=0.001)["intensity"].facts["sweeps"][0]
    assert sweep["exponents"]["flops"] == pytest.approx(2, abs=1e-3)
    assert sweep["exponents"]["ai"] == pytest.approx(1, abs=1e-3)
    assert sweep["exponents"]["time"] == pytest.approx(2, abs=0.02)


def test_intensity_says_when_the_limiter_changes() -> None:
    why = found(intensity_truths())["intensity"].why
    assert "The limit changes from DRAM bandwidth to compute." in why
    assert "Time grows with the work." in why


@pytest.mark.parametrize("cost_s", [1e-6, 4e-6, 2e-5])
def test_the_cost_of_a_launch_lies_in_its_interval(cost_s: float) -> None:
    hits = 0
    for seed in range(20):
        facts = found(launch_truths(cost_s), seed=seed)["launch"].facts
        low, high = facts["cost_interval_s"]
        assert facts["cost_per_launch_s"] == pytest.approx(cost_s, rel=0.2)
        hits += low <= cost_s <= high
    # 95 % are promised; 15 of 20 leaves room for luck.
    assert hits >= 15


def test_launches_against_the_machine() -> None:
    why = found(launch_truths(4e-6))["launch"].why
    assert "500 ns" in why
    assert "the framework's and Python's" in why
    assert "the machine's own cost" in found(launch_truths(0.5e-6, 5e-6))["launch"].why


def test_a_sentence_is_about_the_forward_pass_where_there_is_one() -> None:
    slow = [replace(t, time_s=5 * t.time_s, how=t.how | {"pass": "backward"})
            for t in launch_truths()]  # fmt: skip
    assert "pass)" not in found([*slow, *launch_truths()])["launch"].sentence
    alone = found(slow)["launch"].sentence
    assert alone.endswith("as long (backward pass).")


def test_a_users_function_is_no_fused_layer_and_not_in_the_paper() -> None:
    own = [replace(t, op="my.py:make", how={"variant": form})
           for t in launch_truths()
           for form in [{"cell-loop": "eager", "eager": "graph"}.get(t.how["variant"])] if form
    ]  # fmt: skip
    sentence = found(own)["launch"].sentence
    assert sentence.startswith("my.py:make as single ops makes ")
    every = conclude(study_rows(own), study_machine())
    assert {f.evidence.get("paper") for f in every} <= {None}


def test_other_work_is_not_a_launch_experiment() -> None:
    """A loop that computes twice as much is not compared with the fused layer."""
    truths = [
        Truth(
            "lstm", {"time_steps": 16}, 1e-3, flops=2e6, launches=130, how={"variant": "cell-loop"}
        ),
        Truth("lstm", {"time_steps": 16}, 1e-4, flops=1e6, launches=3),
    ]
    assert "launch" not in found(truths)


def test_launches_that_nobody_counted_are_not_one() -> None:
    truths = launch_truths()
    table = study_report(truths).rows.with_columns(pl.lit(None, pl.String).alias("origin.launches"))
    unknown = declared(table, truths)
    assert "launch" not in {c.factor for c in conclusions(unknown, study_machine())}


def test_a_busy_machine_is_said_and_nothing_claimed() -> None:
    busy = [
        Truth(**(t.__dict__ | {"found": t.found | {"load": "0.5"}}))
        for t in launch_truths() + layout_truths() + algorithm_truths()
    ]
    conclusions_ = found(busy)
    assert not any(c.found for c in conclusions_.values())
    assert "other programs used the processor" in conclusions_["launch"].why
    assert "other programs used the processor" in conclusions_["locality"].why
    assert "Inconclusive" in conclusions_["locality"].title
    assert conclusions_["locality"].open_because == "other programs used the processor"
    assert {conclusions_[n].state for n in ("launch", "locality", "autotune")} == {"open"}
    assert found(launch_truths(0.0))["launch"].state == "not found"


def test_reorders_explain_the_difference() -> None:
    why = found(layout_truths(4e-3))["locality"].why
    assert "reorders 2 against 0" in why
    assert "of the difference)" in why
    assert "Bytes are counted from the operands" in why


def test_levels_against_their_ceilings() -> None:
    conclusion = found(working_set_truths(), noise=0.005)["locality"]
    levels = {level["level"]: level for level in conclusion.facts["levels"]}
    assert levels["dram"]["share_of_ceiling"] == pytest.approx(0.7, rel=0.05)
    assert levels["l3"]["share_of_ceiling"] == pytest.approx(0.7, rel=0.05)
    # Two sets inside L1 are over before they started: their rate is not claimed.
    assert "l1" not in levels


def test_counters_are_preferred_and_said() -> None:
    measured = [
        Truth(
            "conv2d",
            {"batch": 16, "layout": layout},
            6e-3 if layout == "channels_last" else 12e-3,
            size_bytes=1e7 if layout == "channels_last" else 4e7,
            origins={"bytes": "measured"},
        )
        for layout in ("contiguous", "channels_last")
    ]
    conclusion = found(measured)["locality"]
    assert "measured bytes 0.25 times" in conclusion.why
    assert "Bytes are those that counters measured." in conclusion.why
    assert conclusion.facts["bytes"] == "measured"


def test_executed_flops_where_a_counter_saw_them() -> None:
    def truth(variant: str, executed: float) -> Truth:
        return Truth(
            "conv2d",
            {"batch": 16},
            1e-2 if variant == "eager" else 6e-3,
            flops=executed,
            contraction_flops=1e9,
            how={"variant": variant},
            origins={"flops": "measured"},
        )

    why = found([truth("eager", 1e9), truth("max-autotune", 4.7e8)])["autotune"].why
    assert "executes 0.47 of the FLOPs of the definition" in why
    assert "not visible" in found(algorithm_truths())["autotune"].why


def test_matrix_unit_missed_by_shape() -> None:
    conclusion = found(precision_truths())["precision"]
    shape = next(e for e in conclusion.effects if e.facts["kind"] == "shape" and e.real)
    assert shape.facts["matrix_unit"] == "missed"
    assert "the matrix unit is missed, told by the rate" in conclusion.why
    assert "multiples of 16" in str(conclusion.action)


def test_matrix_unit_by_counters_and_by_name() -> None:
    def gemm(precision: str, time_s: float, **more: object) -> Truth:
        return Truth("gemm", {"m": 512}, time_s, how={"precision": precision}, **more)

    counted = gemm("bf16", 2e-3, resource="flop/bf16-tensor", origins={"flops": "measured"})
    why = found([gemm("fp32", 1.2e-2), counted])["precision"].why
    assert "matrix unit used, told by counters" in why
    assert "measured (from counters)" in why
    named = gemm(
        "bf16", 8e-3, resource="flop/bf16-tensor", found={"implementation": "brg:avx512_core_bf16"}
    )
    why = found([gemm("fp32", 1.2e-2), named])["precision"].why
    assert "matrix unit missed, told by the implementation's name" in why


def test_emulated_types_are_said() -> None:
    slow = Truth("gemm", {"m": 64}, 5e-2, how={"precision": "fp16"}, found={"emulated": "fp32"})
    conclusion = found([Truth("gemm", {"m": 64}, 1e-2), slow])["precision"]
    assert "slower than fp32" in conclusion.why
    assert "emulated: fp32" in conclusion.why
    assert conclusion.action is None


def test_dram_bound_is_what_the_truths_say() -> None:
    rows = study_rows(intensity_truths())
    assert {row.limiter for row in rows if row.params["kernel"] == 1} == {"byte/dram"}
    assert DRAM < PEAK


def test_what_was_found_while_a_case_ran_is_not_a_parameter() -> None:
    """A label that nobody has heard of neither sweeps nor splits what is compared."""
    truths = layout_truths()
    table = study_report(truths).rows
    labelled = table.with_columns(pl.col("id").cast(pl.String).alias("label.kernel_hash"))
    rows, others = declared(table, truths), declared(labelled, truths)
    one, other = (conclude(cases, study_machine()) for cases in (rows, others))
    assert [f.title for f in one] == [f.title for f in other] != []
    assert parameters_of(others, "conv2d") == parameters_of(rows, "conv2d")


def test_the_paper_s_rows_are_a_source_of_the_same_engine() -> None:
    report = paper_report()
    cases = published_cases(report.rows)
    assert parameters_of(cases, "conv2d") == ["batch", "filters", "kernel", "stride"]
    moved = next(f for f in conclude(cases, report.machine) if f.code == "study/intensity")
    by_engine = {
        (s["parameter"], s["series"]): s["ai"]
        for s in moved.evidence["sweeps"]
        if s["kernel"] == "conv2d"
    }
    published = next(f for f in report.findings if f.code == "paper/intensity").evidence
    told = [published["batch PT FP32"][k] for k in ("ai_first", "ai_last")]
    assert by_engine["batch", "PT, forward, fp32"] == pytest.approx(told, rel=1e-3)
