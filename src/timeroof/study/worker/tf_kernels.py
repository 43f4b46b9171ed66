"""The studied kernels in TensorFlow: the same sizes and gradients as torch's.

Recurrent layers are Keras' own, but for the style of TensorFlow 1, which Keras does not run in: a
loop as `dynamic_rnn` made it, around the cell of `BasicLSTMCell`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from timeroof.study.case import Params

# TensorFlow has no types of its own.
Tensor = Any
Tensors = tuple[Tensor, ...]
Random = Callable[..., Tensor]


@dataclass(frozen=True)
class Made:
    """A kernel made ready: ``function(weights, *inputs)`` and numpy arrays for its arguments; Keras
    layers hold their weights themselves (`learned`)."""

    function: Callable[..., Tensor]
    weights: Tensors
    inputs: Tensors
    learned: Tensors = ()


def _tf() -> Any:
    return import_module("tensorflow")


def conv2d(params: Params, random: Random, session: bool) -> Made:
    """NHWC where the layout is channels_last, which is TensorFlow's own; else NCHW."""
    tf = _tf()
    size = {name: int(value) for name, value in params.items() if name != "layout"}
    n, c, side, filters = size["batch"], size["channels"], size["size"], size["filters"]
    kernel, stride = size["kernel"], size["stride"]
    last = params.get("layout") == "channels_last"
    shape = (n, side, side, c) if last else (n, c, side, side)
    order = "NHWC" if last else "NCHW"
    steps = (1, stride, stride, 1) if last else (1, 1, stride, stride)

    def run(weights: Tensors, x: Tensor) -> Tensor:
        w, b = weights
        out = tf.nn.conv2d(x, w, steps, "VALID", data_format=order)
        return tf.nn.bias_add(out, b, data_format=order)

    weights = (random(kernel, kernel, c, filters), random(filters))
    return Made(run, weights, (random(*shape),))


_LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn": "SimpleRNN"}


def recurrent(kind: str, params: Params, random: Random, session: bool) -> Made:
    """One layer over a sequence that returns all its steps."""
    names = ("batch", "time_steps", "features", "hidden")
    batch, steps, features, hidden = (int(params[name]) for name in names)
    if session:
        if kind != "lstm":
            raise NotImplementedError(f"{kind} has no form in the style of TensorFlow 1 here")
        weights = (random(features + hidden, 4 * hidden), random(4 * hidden))
        return Made(_dynamic_rnn, weights, (random(steps, batch, features),))
    keras = import_module("keras")
    inputs = random(batch, steps, features)
    options = {"reset_after": False} if kind == "gru" else {}
    layer = getattr(keras.layers, _LAYERS[kind])(
        hidden, return_sequences=True, dtype=str(inputs.dtype), **options
    )
    layer.build(inputs.shape)
    learned = tuple(v.value for v in layer.trainable_variables)
    return Made(lambda weights, x: layer(x), (), (inputs,), learned)


def _dynamic_rnn(weights: Tensors, xs: Tensor) -> Tensor:
    """A while loop over the time steps, inputs and results in TensorArrays."""
    tf = _tf()
    w, b = weights
    steps, batch, _ = xs.shape
    hidden = w.shape[1] // 4
    read = tf.TensorArray(xs.dtype, steps).unstack(xs)
    zero = tf.zeros((batch, hidden), xs.dtype)

    def body(step: Tensor, h: Tensor, c: Tensor, found: Tensor) -> Tensor:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([read.read(step), h], 1), w), b)
        i, g, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(g)
        h = tf.tanh(c) * tf.sigmoid(o)
        return step + 1, h, c, found.write(step, h)

    start = (tf.constant(0), zero, zero, tf.TensorArray(xs.dtype, steps))
    end = tf.while_loop(lambda step, *rest: step < steps, body, start, maximum_iterations=steps)
    return end[3].stack()


def gemm(params: Params, random: Random, session: bool) -> Made:
    """A matrix product."""
    tf = _tf()
    m, n, k = (int(params[name]) for name in "mnk")
    return Made(lambda weights, a, b: tf.matmul(a, b), (), (random(m, k), random(k, n)))


def attention(params: Params, random: Random, session: bool) -> Made:
    """Two batched products around a softmax; a causal mask is added to the scores."""
    tf = _tf()
    names = ("batch", "heads", "sequence", "head_dim")
    batch, heads, length, width = (int(params[name]) for name in names)
    causal = params.get("causal") == "yes"

    def run(weights: Tensors, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = tf.matmul(q * width**-0.5, k, transpose_b=True)
        if causal:
            kept = tf.linalg.band_part(tf.ones((length, length), scores.dtype), -1, 0)
            scores += (1.0 - kept) * -1e9
        return tf.matmul(tf.nn.softmax(scores), v)

    return Made(run, (), tuple(random(batch, heads, length, width) for _ in range(3)))


def _recurrent(kind: str) -> Callable[[Params, Random, bool], Made]:
    return lambda params, random, session: recurrent(kind, params, random, session)


KERNELS: dict[str, Callable[[Params, Random, bool], Made]] = {
    "conv2d": conv2d,
    **{kind: _recurrent(kind) for kind in _LAYERS},
    "gemm": gemm,
    "attention": attention,
}
