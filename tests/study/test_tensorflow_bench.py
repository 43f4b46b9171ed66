"""TensorFlow's cases: eager, graph, XLA and session do the work of the case's formula, or say why not."""

from __future__ import annotations

import pytest

from timeroof.study.case import QUICK, Case, Result
from timeroof.study.kernels import kernel

SMALL = {
    "conv2d": {"batch": 2, "filters": 8, "kernel": 3, "stride": 2, "channels": 4, "size": 12,
               "layout": "channels_last"},
    "lstm": {"batch": 4, "time_steps": 5, "features": 6, "hidden": 8},
}  # fmt: skip
VARIANTS = ("eager", "graph", "xla", "session")
PLAN = type(QUICK)(warmup_s=0.0, budget_s=0.0, precision=1.0, least=2, sample_s=0.0)


def measured(*cases: Case) -> list[Result]:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from timeroof.study.worker.tf_bench import Bench

    return list(Bench(None).measure(cases, PLAN))


def case(name: str, pass_name: str = "forward", variant: str = "graph", **more: object) -> Case:
    params = SMALL[name] | {k: v for k, v in more.items() if k in SMALL[name]}
    rest = {k: v for k, v in more.items() if k not in SMALL[name]}
    return Case(kernel=name, params=params, pass_name=pass_name, variant=variant, framework="tensorflow", **rest)  # type: ignore[arg-type]  # fmt: skip


AGAIN = "the forward pass runs again inside the backward pass"
LEFT_OUT = "the gradient of the initial state is left out"
ALL = "the gradient of an op computes those of all its operands"
# Executed products over those of the formula, and why; 1 where nothing stands here. With F forward,
# B backward and S the product of one step with the recurrent weights: F + B over B, and so on.
OTHER = {
    ("lstm", "forward", "eager"): (6 / 5, "Keras runs the cell 6 times for 5 steps"),
    ("lstm", "backward", "eager"): (None, LEFT_OUT),
    ("lstm", "backward", "xla"): (1.5, AGAIN),
    ("lstm", "backward", "session"): (1.5, AGAIN),
    ("conv2d", "backward-input", "eager"): (2.0, ALL),
    ("conv2d", "backward-input", "graph"): (2.0, ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pass_name"),
    [("conv2d", "forward"), ("conv2d", "backward"), ("conv2d", "backward-input"),
     ("lstm", "forward"), ("lstm", "backward")],
)  # fmt: skip
def test_executed_products_are_the_formulas_or_the_cause_is_named(
    name: str, pass_name: str
) -> None:
    cases = [case(name, pass_name, v) for v in VARIANTS]
    formula = kernel(name).contraction(SMALL[name], pass_name)
    assert formula
    for one, result in zip(cases, measured(*cases), strict=True):
        said = (one.variant, result.error)
        assert result.status == "done", said
        ratio, why = OTHER.get((name, pass_name, one.variant), (1.0, None))
        if ratio is None:  # one product of the last turn is missing
            ratio = 1 - 2 * 4 * 8 * 4 * 8 / formula
        assert result.contraction_flops == pytest.approx(formula * ratio, rel=1e-12), said
        assert result.labels.get("executed_because") == why, said
        assert "uncounted" not in result.labels, said
        assert result.launches, said
        assert result.amounts["byte/dram"], said
        assert result.labels["contains"], said


def test_what_exceeds_the_forward_pass_has_its_own_cause() -> None:
    from timeroof.study.worker.tf_bench import because

    weights = case("lstm", "backward-weight", "session")
    needs = kernel("lstm").contraction
    own, forward, both = (
        needs(weights.params, name) or 0 for name in ("backward-weight", "forward", "backward")
    )
    assert because(weights, (own + forward) / own) == AGAIN
    assert because(weights, (both + forward) / own) == f"{AGAIN}, and {ALL}"


@pytest.mark.slow
def test_what_tensorflow_does_not_have_is_a_reason_and_the_others_go_on() -> None:
    wrong = [
        case("conv2d", variant="compiled"), case("conv2d", precision="int8"), case("conv2d"),
        case("conv2d", "optimizer"), case("lstm", hidden=-1), case("conv2d", layout="contiguous"),
    ]  # fmt: skip
    found = measured(*wrong)
    assert [r.status for r in found[:5]] == [
        "unsupported",
        "unsupported",
        "done",
        "unsupported",
        "failed",
    ]
    assert (
        found[0].error == "TensorFlow has no variant 'compiled': it has eager, graph, xla, session"
    )
    assert found[5].status in ("done", "unsupported")


@pytest.mark.slow
def test_a_function_of_the_users_is_counted_by_the_nodes_that_ran() -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from timeroof.study.worker.own import Own
    from timeroof.study.worker.tf_bench import Bench

    def make(n: int) -> object:
        return tf.function(lambda a, b: a @ b), (tf.ones((n, n)), tf.ones((n, n)))

    own = Case(kernel="make", params={"n": 64}, pass_name="forward", precision="",
               framework="tensorflow", variant="eager")  # fmt: skip
    (found,) = Bench(None, Own("make", make)).measure([own], PLAN)
    assert found.contraction_flops == 2.0 * 64**3
