"""HLO as XLA really compiles it: products against their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from timeroof.work.hlo.cost import Program, Total
from timeroof.work.hlo.proto import read_module

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy


def compiled(function: Callable[..., Any], *args: Any) -> Program:
    made = jax.jit(function).lower(*args).compile()
    module = made.runtime_executable().hlo_modules()[0]
    return Program(read_module(module.as_serialized_hlo_module_proto()))


def total(function: Callable[..., Any], *args: Any) -> Total:
    return compiled(function, *args).total()


def convolve(**options: Any) -> Callable[..., Any]:
    def run(x: Any, w: Any) -> Any:
        given = {"window_strides": (1, 1), "padding": "VALID"} | options
        return jax.lax.conv_general_dilated(
            x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **given
        )

    return run


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w, g: jax.vjp(function, x, w)[1](g)


X = (2, 12, 12, 16)
CONVOLUTIONS = {
    "plain": ({}, (3, 3, 16, 8), 2 * 2 * 10 * 10 * 8 * 16 * 9),
    "stride": ({"window_strides": (2, 2)}, (3, 3, 16, 8), 2 * 2 * 5 * 5 * 8 * 16 * 9),
    "dilated": ({"rhs_dilation": (2, 2)}, (3, 3, 16, 8), 2 * 2 * 8 * 8 * 8 * 16 * 9),
    "grouped": ({"feature_group_count": 4}, (3, 3, 4, 8), 2 * 2 * 10 * 10 * 8 * 4 * 9),
    "same": ({"padding": "SAME"}, (3, 3, 16, 8), 2 * 2 * 34 * 34 * 8 * 16),
    "transposed": (
        {"lhs_dilation": (2, 2), "padding": ((2, 2), (2, 2))}, (3, 3, 16, 8),
        2 * 2 * 12 * 12 * 8 * 16 * 9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_both_gradients_have_the_formulas_products(name: str) -> None:
    options, kernel, products = CONVOLUTIONS[name]
    run, x, w = convolve(**options), jnp.ones(X), jnp.ones(kernel)
    assert total(run, x, w).cost.contraction_flops == products
    out = jnp.ones(jax.eval_shape(run, x, w).shape)
    assert total(gradients(run), x, w, out).cost.contraction_flops == 2 * products


def test_the_compiler_computes_a_dense_convolution_for_depthwise_weights() -> None:
    run, x, w = convolve(feature_group_count=16), jnp.ones(X), jnp.ones((3, 3, 1, 16))
    products = 2 * 2 * 10 * 10 * 16 * 9
    assert total(run, x, w).cost.contraction_flops == products
    out = jnp.ones((2, 10, 10, 16))
    # The input's gradient as it should be, the weights' 16 times: masked afterwards.
    assert total(gradients(run), x, w, out).cost.contraction_flops == products * 17


def lstm(weights: Any, state: Any, xs: Any) -> Any:
    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(x @ weights + h @ state, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], state.shape[0]))
    return jax.lax.scan(cell, (zero, zero), xs)[1]


LSTM = 2 * 16 * 4 * 4 * 8 * (6 + 8)


def test_a_scan_counts_every_step() -> None:
    given = (jnp.ones((6, 32)), jnp.ones((8, 32)), jnp.ones((16, 4, 6)))
    assert total(lstm, *given).cost.contraction_flops == LSTM
    backward = total(lambda *a: jax.vjp(lstm, *a[:3])[1](a[3]), *given, jnp.ones((16, 4, 8)))
    assert backward.cost.contraction_flops == 3 * LSTM


def block(x: Any, p: Any) -> Any:
    batch, length = x.shape[:2]
    q, k, v = (t.reshape(batch, length, 2, -1) for t in jnp.split(x @ p["qkv"], 3, -1))
    weights = jax.nn.softmax(jnp.einsum("blhd,bmhd->bhlm", q, k))
    x = x + jnp.einsum("bhlm,bmhd->blhd", weights, v).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"], None


def test_a_scanned_block_with_remat_runs_its_forward_pass_twice_but_for_the_last_product() -> None:
    width, length, batch, layers = 16, 8, 2, 3
    sizes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}  # fmt: skip
    params = {name: jnp.ones((layers, *size)) for name, size in sizes.items()}
    x = jnp.ones((batch, length, width))
    linear = 2 * batch * length * sum(a * b for a, b in sizes.values())
    attention = 4 * batch * length * length * width
    forward = layers * (linear + attention)

    def run(params: Any, x: Any) -> Any:
        return jax.lax.scan(jax.checkpoint(block), x, params)[0].sum()

    assert total(run, params, x).cost.contraction_flops == forward
    spared = layers * 2 * batch * length * 4 * width * width  # nobody needs `down`'s result again
    found = total(jax.value_and_grad(run), params, x).cost.contraction_flops
    # The first layer's input needs no gradient: XLA cannot know that inside a loop.
    assert found == 4 * forward - spared


def test_a_loop_that_data_ends_is_named() -> None:
    found = total(
        lambda x: jax.lax.while_loop(lambda y: y.sum() < 1e9, lambda y: y @ y, x), jnp.ones((8, 8))
    )
    assert len(found.endless) == 1
