"""The work that a JAX function defines, counted on its jaxpr, against hand calculation and XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work.hlo.test_against_xla import LSTM, convolve, gradients, lstm, total
from timeroof.study.worker.jax_bench import defined_work

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
N = 8
SQUARE = jnp.ones((N, N))
PRODUCT = 2.0 * N**3


def loop(x: Any) -> Any:
    return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ x), None), x, None, length=5)[0]


def again(x: Any) -> Any:
    inner = jax.checkpoint(lambda y: jnp.tanh(y @ x) @ x)
    return jax.grad(lambda y: inner(y).sum())(x)


# A function of one square matrix: products, and all further FLOPs.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "product": (lambda x: x @ x, PRODUCT, 0),
    "scan": (loop, 5 * PRODUCT, 5 * N * N),
    "condition": (lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y @ y, lambda y: y, x), PRODUCT, 1),
    "nested jit": (lambda x: jax.jit(lambda y: y @ y)(x) + x, PRODUCT, N * N),
    "result that nobody needs": (lambda x: (x @ x, x + 1)[1], 0, N * N),
    # Once more forward (but for the last product), and the gradient of either product.
    "remat": (again, 3 * PRODUCT, None),
    "softmax": (jax.nn.softmax, 0, 4 * N * N),
    "cumulative sum": (lambda x: jnp.cumsum(x, 0), 0, N * N),
    "scatter": (lambda x: x.at[jnp.arange(4)].add(1.0), 0, 4 * N),
    "cholesky": (jnp.linalg.cholesky, N**3 / 3, None),
    "transform": (jnp.fft.fft, 0, 5 * N * N * 3),
    "sort": (jnp.sort, 0, 0),
    "bf16": (lambda x: x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), PRODUCT, 0),
    "vmap": (lambda x: jax.vmap(jnp.dot, (0, None))(x, x), PRODUCT, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_by_hand(name: str) -> None:
    function, products, other = FUNCTIONS[name]
    found = defined_work(function, SQUARE)
    assert found is not None
    assert (found.unknown, found.endless) == (set(), set())
    assert found.contraction_flops == pytest.approx(products)
    if name == "softmax":
        # Maximum, difference, exponential, sum, quotient; the largest is kept from infinity.
        assert found.other_flops == pytest.approx(5 * N * N, rel=0.1)
    elif other is not None:
        assert found.other_flops == pytest.approx(other, abs=2)


def test_formats_are_kept_apart() -> None:
    found = defined_work(lambda x: (x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), x @ x), SQUARE)
    assert found is not None
    assert found.contraction == {"bf16": PRODUCT, "fp32": PRODUCT}


def test_what_nobody_can_count_is_named() -> None:
    unknown = defined_work(lambda x: jnp.linalg.svd(x)[1], SQUARE)
    assert unknown is not None
    assert unknown.unknown == {"svd"}
    assert unknown.contraction_flops is None
    endless = defined_work(
        lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y @ y, x), SQUARE
    )
    assert endless is not None
    assert endless.endless
    assert endless.contraction_flops is None


def test_a_function_that_cannot_be_traced_has_no_jaxpr() -> None:
    assert defined_work(lambda x: x if float(x[0, 0]) > 0 else x @ x, SQUARE) is None


def test_the_compiler_does_16_5_times_the_products_of_depthwise_gradients() -> None:
    x, w = jnp.ones((4, 16, 16, 32)), jnp.ones((3, 3, 1, 32))
    run = convolve(feature_group_count=32)

    def gradient(w: Any) -> Any:
        return jax.grad(lambda w: (run(x, w) ** 2).sum())(w)

    defined = defined_work(gradient, w)
    assert defined is not None
    assert defined.in_groups
    assert defined.contraction_flops == 2 * (2.0 * 4 * 14 * 14 * 32 * 9)
    executed = total(gradient, w).cost.contraction_flops
    assert executed is not None
    assert executed / defined.contraction_flops == 16.5


def test_convolutions_and_loops_define_what_xla_executes() -> None:
    x, w, g = jnp.ones((2, 12, 12, 16)), jnp.ones((3, 3, 4, 8)), jnp.ones((2, 6, 6, 8))
    run = convolve(feature_group_count=4, window_strides=(2, 2), padding="SAME")
    both = defined_work(gradients(run), x, w, g)
    assert both is not None
    assert both.contraction_flops == total(gradients(run), x, w, g).cost.contraction_flops
    given = (jnp.ones((6, 32)), jnp.ones((8, 32)), jnp.ones((16, 4, 6)))
    scanned = defined_work(lstm, *given)
    assert scanned is not None
    assert scanned.contraction_flops == LSTM
