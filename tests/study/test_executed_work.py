"""What XLA executes against the definition: grouped and depthwise convolutions, attention, a GPT block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Program = Callable[[], object]
B, T, H, D = 2, 16, 2, 8
C, LAYERS = H * D, 3


def executed(run: Program) -> float | None:
    """Products of one execution, from the instructions that ran."""
    pytest.importorskip("jax", reason="JAX is not installed")
    from timeroof.study.worker import xla_counting
    from timeroof.study.worker.jax_bench import Bench

    run()
    thunks = xla_counting.executed(run, Bench(None)._traced)
    assert thunks
    assert all(thunk.linked is not None for thunk in thunks)
    return xla_counting.used(thunks, None, cold=True).contraction_flops


def ready(function: Callable[..., Any], *arguments: Any) -> Program:
    import jax

    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def convolution(groups: int) -> tuple[Callable[..., Any], Any, Any, float]:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x, w = jax.numpy.ones((4, 16, 16, 32)), jax.numpy.ones((3, 3, 32 // groups, 32))

    def run(w: Any, x: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=order, feature_group_count=groups
        )

    return run, w, x, 2.0 * 4 * 14 * 14 * 32 * (32 // groups) * 9


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 4, 32])
def test_convolutions_in_groups_execute_what_they_need(groups: int) -> None:
    run, w, x, needed = convolution(groups)
    assert executed(ready(run, w, x)) == needed


@pytest.mark.slow
def test_the_weight_gradient_of_a_depthwise_convolution_does_more_than_it_needs() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    run, w, x, needed = convolution(32)
    gradient = jax.grad(lambda w, x, g: (run(w, x) * g).sum())
    found = executed(ready(gradient, w, x, jax.numpy.ones((4, 14, 14, 32))))
    # XLA's CPU back end computes the dense gradient and masks it.
    assert found is not None
    assert found / needed > 8


@pytest.mark.slow
def test_attention_executes_two_products() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    q = jax.numpy.ones((B, T, H, D))
    assert (
        executed(ready(lambda q: jax.nn.dot_product_attention(q, q, q), q))
        == 4.0 * B * H * T * T * D
    )


def block(jax: Any) -> Callable[..., Any]:
    def run(x: Any, w: Any) -> Any:
        q, k, v = jax.numpy.split(x @ w["qkv"], 3, -1)
        parts = (t.reshape(B, T, H, D) for t in (q, k, v))
        mixed = jax.nn.dot_product_attention(*parts).reshape(B, T, C)
        x = x + mixed @ w["out"]
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"], None

    return run


@pytest.mark.slow
@pytest.mark.parametrize("remat", [False, True])
def test_a_gpt_of_scanned_blocks_executes_its_formula_forward(remat: bool) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    make = jax.numpy.ones
    sizes = {"qkv": (C, 3 * C), "out": (C, C), "up": (C, 4 * C), "down": (4 * C, C)}
    w = {name: make((LAYERS, *size)) for name, size in sizes.items()}
    step = jax.checkpoint(block(jax)) if remat else block(jax)
    one = 2.0 * B * T * 12 * C * C + 4.0 * B * H * T * T * D

    def forward(w: Any, x: Any) -> Any:
        return jax.lax.scan(step, x, w)[0]

    assert executed(ready(forward, w, make((B, T, C)))) == LAYERS * one
    gradient = executed(ready(jax.grad(lambda w, x: forward(w, x).sum()), w, make((B, T, C))))
    assert gradient is not None
    # Each gradient repeats the products; with remat the forward pass runs once more, but for
    # products whose results no gradient needs.
    again = gradient / (LAYERS * one)
    assert 3.4 < again < 4.0 if remat else again == pytest.approx(3.0, abs=0.05)
