"""The studied kernels in JAX: the same sizes, layouts and biases as torch's.

A kernel is a function of weights and inputs. Eager JAX runs a recurrent layer as a Python loop over
its cell, compiled JAX as `lax.scan`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from timeroof.study.kernel import Params

# A worker without JAX imports this file too.
Array = Any
Arrays = tuple[Array, ...]
Random = Callable[..., Array]


@dataclass(frozen=True)
class Made:
    """A kernel made ready: ``function(weights, *inputs)`` and its arguments."""

    function: Callable[..., Array]
    weights: Arrays
    inputs: Arrays


def _conv2d(params: Params, random: Random, eager: bool) -> Made:
    lax = import_module("jax").lax
    size = {name: int(value) for name, value in params.items() if name != "layout"}
    n, c, side, filters = size["batch"], size["channels"], size["size"], size["filters"]
    kernel, stride = size["kernel"], size["stride"]
    last = params.get("layout") == "channels_last"
    shape = (n, side, side, c) if last else (n, c, side, side)
    order = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")
    weight = (kernel, kernel, c, filters) if last else (filters, c, kernel, kernel)

    def run(weights: Arrays, x: Array) -> Array:
        w, b = weights
        out = lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=order)
        return out + (b if last else b[:, None, None])

    return Made(run, (random(*weight), random(filters)), (random(*shape),))


def _lstm(params: Params, random: Random, eager: bool) -> Made:
    jax = import_module("jax")
    jnp = import_module("jax.numpy")
    names = ("batch", "time_steps", "features", "hidden")
    batch, steps, features, hidden = (int(params[name]) for name in names)

    def cell(weights: Arrays, state: Array, x: Array) -> Array:
        w, u, b, d = weights
        h, c = state
        i, f, g, o = jnp.split(x @ w + b + h @ u + d, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def run(weights: Arrays, xs: Array) -> Array:
        zero = jnp.zeros((batch, hidden), xs.dtype)
        state, found = (zero, zero), []
        if not eager:
            return jax.lax.scan(lambda s, x: cell(weights, s, x), state, xs)[1]
        for step in range(steps):
            state, h = cell(weights, state, xs[step])
            found.append(h)
        return jnp.stack(found)

    gates = 4 * hidden
    weights = (random(features, gates), random(hidden, gates), random(gates), random(gates))
    return Made(run, weights, (random(steps, batch, features),))


def _gemm(params: Params, random: Random, eager: bool) -> Made:
    m, n, k = (int(params[name]) for name in "mnk")
    return Made(lambda weights, a, b: a @ b, (), (random(m, k), random(k, n)))


def _attention(params: Params, random: Random, eager: bool) -> Made:
    jax = import_module("jax")
    names = ("batch", "sequence", "heads", "head_dim")
    shape = tuple(int(params[name]) for name in names)
    causal = params.get("causal") == "yes"

    def run(weights: Arrays, q: Array, k: Array, v: Array) -> Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    return Made(run, (), tuple(random(*shape) for _ in range(3)))


KERNELS: dict[str, Callable[[Params, Random, bool], Made]] = {
    "conv2d": _conv2d,
    "lstm": _lstm,
    "gemm": _gemm,
    "attention": _attention,
}
