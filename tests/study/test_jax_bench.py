"""JAX's cases: the same work as the case's formula, counted from the HLO that ran."""

from __future__ import annotations

import pytest

from timeroof.core.errors import UsageError
from timeroof.study.case import QUICK, Case, Result
from timeroof.study.grid import grid_cases
from timeroof.study.kernels import kernel
from timeroof.study.run import Place, version_of

SMALL = {
    "conv2d": {"batch": 2, "filters": 8, "kernel": 3, "stride": 2, "channels": 4, "size": 12,
               "layout": "contiguous"},
    "lstm": {"batch": 4, "time_steps": 5, "features": 6, "hidden": 8},
    "gemm": {"m": 8, "n": 16, "k": 32},
    "attention": {"batch": 2, "heads": 2, "sequence": 16, "head_dim": 8, "causal": "no"},
}  # fmt: skip


def measured(*cases: Case) -> list[Result]:
    pytest.importorskip("jax", reason="JAX is not installed")
    from timeroof.study.worker.jax_bench import Bench

    return list(Bench(None).measure(cases, QUICK))


def case(name: str, pass_name: str = "forward", variant: str = "compiled", **more: object) -> Case:
    params = SMALL[name] | {k: v for k, v in more.items() if k in SMALL[name]}
    rest = {k: v for k, v in more.items() if k not in SMALL[name]}
    return Case(kernel=name, params=params, pass_name=pass_name, variant=variant, framework="jax", **rest)  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "lstm", "gemm"])
def test_executed_products_are_the_formulas_in_every_pass_and_variant(name: str) -> None:
    passes = ["forward", "backward"]
    if name != "gemm":
        passes += ["backward-input", "backward-weight"]
    cases = [case(name, p, v) for p in passes for v in ("compiled", "eager")]
    for one, result in zip(cases, measured(*cases), strict=True):
        said = (one.pass_name, one.variant, result.error)
        assert result.status == "done", said
        formula = kernel(name).contraction(one.params, one.pass_name)
        assert result.contraction_flops is not None, said
        if "executed_per_needed" in result.labels:
            ratio = float(result.labels["executed_per_needed"])
            assert result.contraction_flops == pytest.approx(formula * ratio, rel=1e-3), said
        else:
            assert result.contraction_flops == formula, said
        assert result.samples_s
        assert result.launches
        assert result.amounts["byte/dram"]


@pytest.mark.slow
def test_layouts_do_the_same_work_and_eager_launches_more() -> None:
    first, last, loop, scan = measured(
        case("conv2d"), case("conv2d", layout="channels_last"), case("lstm", variant="eager"),
        case("lstm"),
    )  # fmt: skip
    assert first.contraction_flops == last.contraction_flops
    assert loop.contraction_flops == scan.contraction_flops
    assert loop.labels["counted_on"] == "the compiled programs that ran (HLO)"


def test_what_jax_does_not_have_is_a_reason() -> None:
    wrong = [
        case("conv2d", variant="graph"), case("conv2d", precision="int8"),
        case("conv2d", "optimizer"), case("conv2d", device="cuda"),
    ]  # fmt: skip
    found = measured(*wrong)
    assert [r.status for r in found] == ["unsupported"] * 4
    assert found[0].error == "JAX has no variant 'graph': it has eager, compiled"


def test_a_case_that_fails_is_a_row_with_its_error() -> None:
    (found,) = measured(case("lstm", hidden=-1))
    assert found.status == "failed"
    assert found.error


def test_variants_are_those_of_the_framework() -> None:
    jax = grid_cases("lstm", sweeps={}, passes=["forward"], framework="jax")
    assert [c.variant for c in jax] == ["eager", "compiled"]
    torch = grid_cases("lstm", sweeps={}, passes=["forward"], variants=["compiled"])
    assert [c.variant for c in torch] == ["compile"]
    assert [c.variant for c in grid_cases("lstm", sweeps={}, passes=["forward"])] == ["eager"]


def test_a_framework_that_is_missing_is_said_and_the_others_go_on() -> None:
    place = Place.here(None, "torch", "no-such-framework")
    assert place.by_framework == {"torch": f"torch {version_of('torch')}"}
    with pytest.raises(UsageError, match="no-such-framework is not installed"):
        Place.here(None, "no-such-framework")
