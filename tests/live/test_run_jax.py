"""JAX programs under `timeroof run`: steps, kinds, work as it is by hand, and odd ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.live_programs import check_account, folder, python, report

__all__ = ["folder"]
pytest.importorskip("jax")
pytestmark = pytest.mark.slow

# A transformer of 2 layers in a scan, each layer computed again for its gradient.
GPT = """
import jax, jax.numpy as jnp, numpy as np
L, D, H, T, B, V = 2, 32, 4, 16, 4, 64
keys = jax.random.split(jax.random.key(0), 5)
def normal(key, *shape): return jax.random.normal(key, shape) * 0.02
params = {"table": normal(keys[0], V, D), "layers": {
    "qkv": normal(keys[1], L, D, 3 * D), "out": normal(keys[2], L, D, D),
    "up": normal(keys[3], L, D, 4 * D), "down": normal(keys[4], L, 4 * D, D)}}
def heads(a): return a.reshape(B, T, H, D // H).transpose(0, 2, 1, 3)
def layer(x, w):
    q, k, v = jnp.split(x @ w["qkv"], 3, -1)
    scores = jnp.einsum("bhtd,bhsd->bhts", heads(q), heads(k))
    mixed = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores), heads(v))
    x = x + mixed.transpose(0, 2, 1, 3).reshape(B, T, D) @ w["out"]
    return x + jax.nn.gelu(x @ w["up"]) @ w["down"]
def loss(params, tokens):
    x = params["table"][tokens[:, :-1]]
    x, _ = jax.lax.scan(lambda x, w: (jax.checkpoint(layer)(x, w), None), x, params["layers"])
    logits = jax.nn.log_softmax(x @ params["table"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()
@jax.jit
def train_step(params, tokens):
    value, grads = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value
tokens = np.random.default_rng(0).integers(0, V, (B, T + 1))
for _ in range(16):
    params, value = train_step(params, tokens)
print(float(value) < 5)
"""


def test_a_transformer_with_scan_and_remat_has_the_products_that_it_has_by_hand(
    folder: Path,
) -> None:
    found = report(folder, GPT)
    rows, layers, width, words = 4 * 16, 2, 32, 64
    attention = 2 * 2 * 4 * 16 * 16 * width
    one_layer = 2 * rows * width * (3 + 1 + 4 + 4) * width + attention
    forward = layers * one_layer + 2 * rows * width * words
    # The last product of a layer need not be computed again.
    again = layers * (one_layer - 2 * rows * 4 * width * width)
    assert found["totals"]["contraction_flops"] == 3 * forward + again
    assert found["totals"]["known_time_share"] == 1.0
    assert found["totals"]["steps"]["mark"] == "a call of train_step"
    assert "training" in {kind["name"] for kind in found["totals"]["steps"]["kinds"]}
    assert {"forward", "backward"} <= {row["phase"] for row in found["kernels"]}
    assert any(str(r["labels"].get("source", "")).startswith("train.py") for r in found["kernels"])
    assert found["source"]["frameworks"][0]["name"] == "jax"
    check_account(found)


LOOP = """
import jax, jax.numpy as jnp
@jax.jit
def solve(a, turns):
    def more(c): return c[1] < turns
    return jax.lax.while_loop(more, lambda c: (jnp.tanh(c[0] @ a), c[1] + 1), (a, 0))[0]
a = jnp.ones((64, 64)) * 0.01
for _ in range(14):
    y = solve(a, 7)
"""


def test_a_loop_whose_length_the_data_tells_is_counted_by_its_turns(folder: Path) -> None:
    found = report(folder, LOOP)
    assert found["totals"]["contraction_flops"] == 7 * 2 * 64**3
    assert "inference" in {kind["name"] for kind in found["totals"]["steps"]["kinds"]}


ACCUMULATE = """
import jax, jax.numpy as jnp
params = jnp.ones((32, 32)) * 0.01
@jax.jit
def gradients(params, x): return jax.grad(lambda p: ((x @ p) ** 2).mean())(params)
@jax.jit
def add(a, b): return a + b
@jax.jit
def update(params, total):
    jax.grad(lambda p: (p ** 2).sum())(params)
    return params - 0.1 * total
x = jnp.ones((16, 32))
for _ in range(20):
    total = gradients(params, x)
    for _ in range(3):
        total = add(total, gradients(params, x))
    params = update(params, total)
"""


def test_gradients_that_are_accumulated_are_one_step(folder: Path) -> None:
    found = report(folder, ACCUMULATE)
    assert found["totals"]["steps"]["mark"] == "a call of update"
    assert found["totals"]["steps"]["count"] in (18, 19, 20)
    assert found["totals"]["contraction_flops"] == 4 * 2 * 2 * 16 * 32 * 32


# Optax itself is not needed: what is looked at is where its functions are, and a number.
OPTAX = """
class MultiSteps:
    def __init__(self, every): self._every_k_schedule = lambda step: every
    def update(self, gradient, total): return gradient + total
def apply_updates(params, updates): return params - 0.1 * updates
"""
MICRO_BATCHES = """
import jax, jax.numpy as jnp, optax
steps = optax.MultiSteps(4)
@jax.jit
def train(params, total, x):
    total = steps.update(jax.grad(lambda p: ((x @ p) ** 2).mean())(params), total)
    return optax.apply_updates(params, total), total
params = total = jnp.ones((32, 32)) * 0.01
for _ in range(80):
    params, total = train(params, total, jnp.ones((16, 32)))
"""


def test_gradients_that_are_accumulated_within_one_function_are_one_step(folder: Path) -> None:
    (folder / "optax.py").write_text(OPTAX)
    found = report(folder, MICRO_BATCHES)
    assert found["totals"]["steps"]["mark"] == "4 calls of train"
    assert found["totals"]["steps"]["count"] in (18, 19, 20)
    assert found["totals"]["contraction_flops"] == 4 * 2 * 2 * 16 * 32 * 32


RETRACE = """
import jax, jax.numpy as jnp
x = jnp.ones((64, 64)) * 0.01
for _ in range(10):
    x = jax.jit(lambda x: jnp.tanh(x @ x))(x)
"""


def test_a_program_that_compiles_in_every_step_is_told_so(folder: Path) -> None:
    found = report(folder, RETRACE)
    idle = found["totals"]["idle_by_cause"]
    assert idle["compile"] > 0
    # Made anew from the same lines, it is the same step.
    assert found["totals"]["steps"]["mark"] == "a call of <lambda>"
    finding = next(f for f in found["findings"] if f["code"] == "TR109")
    assert "compil" in finding["title"]


def test_an_error_of_the_program_leaves_a_report_and_its_exit_code(folder: Path) -> None:
    found = report(folder, LOOP + "raise ValueError('no more')\n", code=1)
    assert found["kernels"]
    assert "ValueError" in found["stderr"]


EAGER = """
import jax, jax.numpy as jnp
w = jnp.ones((64, 64)) * 0.01
def loss(w, x): return jnp.mean(jnp.tanh(x @ w) ** 2)
for _ in range(12):
    w = w - 0.1 * jax.grad(loss)(w, jnp.ones((32, 64)))
"""


def test_a_loop_of_single_ops_has_them_as_rows(folder: Path) -> None:
    found = report(folder, EAGER)
    assert found["totals"]["contraction_flops"] == 2 * 2 * 32 * 64 * 64
    assert found["totals"]["idle_by_cause"]["dispatch"] > 0
    assert found["totals"]["steps"]["count"] in (10, 11, 12)
    assert all(row["labels"]["mode"] == "eager" for row in found["kernels"])
    finding = next(f for f in found["findings"] if f["code"] == "TR110")
    assert "ops of a step run one by one" in finding["why"]


READS = """
import jax, jax.numpy as jnp, numpy as np
def places():
    own = vars(type(jnp.ones(1)))
    return np.asarray, np.array, jax.block_until_ready, own["_value"], own["block_until_ready"]
before, restored = places(), False
@jax.jit
def step(w, x):
    value, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * grad, value, x @ w
w = jnp.ones((256, 256)) * 0.01
x = jnp.ones((128, 256))
w = step(w, x)[0] + jnp.zeros(())
for turn in range(16):
    w, value, out = step(w, x)
    loss = float(value)
    seen = np.asarray(out)
    kept = np.array(w)
    back = jax.device_get(out + 0)
    jax.block_until_ready(w)
    restored |= turn > 6 and all(map(lambda a, b: a is b, before, places()))
print(restored)
"""


def test_lines_that_wait_for_results_are_known_and_nothing_is_left_behind(folder: Path) -> None:
    found = report(folder, READS)
    assert found["stdout"].strip() == "True"
    waits = {one["line"]: one for one in found["totals"]["steps"]["waits"]}
    assert {f"train.py:{line}" for line in (16, 17, 18, 19, 20)} <= waits.keys()
    assert waits["train.py:16"]["calls"] == pytest.approx(1.0)
    assert not any(finding["code"] == "TR110" for finding in found["findings"])


# What a program may ask of its compiled functions; it prints the same with nobody watching.
ASKS = """
import copy, functools, inspect, pickle
import jax, jax.numpy as jnp
def plain(x, n): return x @ x * n
f = jax.jit(plain, static_argnums=1)
g = functools.partial(jax.jit, static_argnames=("n",))(plain)
h = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((8, 8))
class Holder:
    def __init__(self): self.run = f
def attempt(make):
    try:
        return make()
    except Exception as error:
        return type(error).__name__
print(repr(f).split(" at ")[0], f.__name__, f.__wrapped__ is plain, inspect.signature(f))
print(isinstance(f, jax.stages.Wrapped), f.__class__.__name__, hasattr(f, "nothing"))
print(attempt(lambda: type(pickle.loads(pickle.dumps(f))).__name__))
print(float(copy.deepcopy(Holder()).run(x, 2)[0, 0]), type(copy.copy(f)).__name__)
print(float(f(x, 2)[0, 0]), float(f(x, 2)[0, 0]), f._cache_size(), float(g(x, n=3)[0, 0]))
lowered = h.lower(x)
print(type(lowered).__name__, float(lowered.compile()(x)[0, 0]), jax.eval_shape(h, x))
print(float(jax.vmap(h)(jnp.ones((2, 8, 8)))[0, 0, 0]), jax.grad(lambda x: h(x).sum())(x).shape)
class Model:
    @jax.jit
    def nothing(self): return 1
    @functools.partial(jax.jit, static_argnums=0)
    def twice(self, x): return x * 2
print(Model().twice(x).shape, type(Model().twice).__name__, [n for n in dir(f) if "watch" in n])
f.clear_cache()
print(f._cache_size(), {f: 1}[f], jax.jit.__name__, jax.grad.__name__)
for _ in range(14):
    h(x)
"""


def test_a_program_sees_its_compiled_functions_as_without_a_recorder(folder: Path) -> None:
    found = report(folder, ASKS)
    assert found["stdout"] == python(folder, "train.py")


# Eight-bit products, of which every call does two more where the data say so.
INT8 = """
import jax, jax.numpy as jnp, numpy as np
w = jnp.asarray(np.random.randint(-127, 127, (3, 64, 64)).astype("i1"))
def product(x, w):
    whole = (((1,), (0,)), ((), ()))
    y = jax.lax.dot_general(x, w, whole, preferred_element_type=jnp.int32)
    return jnp.clip(y // 64, -127, 127).astype(jnp.int8)
@jax.jit
def infer(x):
    x = product(x, w[0])
    return jax.lax.cond(x.sum() > -(10 ** 9), lambda x: product(product(x, w[1]), w[2]),
                        lambda x: x, x)
for _ in range(16):
    y = infer(np.ones((32, 64), "i1"))
y.block_until_ready()
"""


def test_eight_bit_products_of_the_branch_that_ran_are_counted(folder: Path) -> None:
    found = report(folder, INT8)
    assert found["totals"]["contraction_flops"] == 3 * 2 * 32 * 64 * 64
    assert found["totals"]["flops"]["int8"] >= 3 * 2 * 32 * 64 * 64
    assert found["totals"]["known_time_share"] > 0.95
    check_account(found)


PMAP = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import functools, jax, jax.numpy as jnp, numpy as np
@functools.partial(jax.pmap, axis_name="i")
def update(w, x):
    loss, g = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * jax.lax.pmean(g, "i"), loss
w = jnp.broadcast_to(jnp.ones((64, 64)) * 0.01, (2, 64, 64))
for _ in range(16):
    w, loss = update(w, np.random.rand(2, 32, 64).astype("f"))
"""


def test_two_devices_have_the_products_of_both(folder: Path) -> None:
    found = report(folder, PMAP)
    assert found["totals"]["contraction_flops"] == 2 * 2 * 2 * 32 * 64 * 64
    assert found["totals"]["steps"]["mark"] == "a call of update"
    assert found["totals"]["known_time_share"] > 0.95
    check_account(found)


# JAX holds a lock while it looks for devices, here for longer than windows of time wait.
SLOW_START = """
import time
import jax, jax.numpy as jnp
from jax._src import hardware_utils
look = hardware_utils.num_available_tpu_chips_and_device_id
def slow():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        sum(range(100))
    return look()
hardware_utils.num_available_tpu_chips_and_device_id = slow
f = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.ones((64, 64)) * 0.01
for _ in range(16):
    x = f(x)
print(x.shape)
"""


def test_a_slow_search_for_devices_does_not_stop_the_program(folder: Path) -> None:
    found = report(folder, SLOW_START, timeout=120)
    assert found["stdout"] == "(64, 64)\n"
    assert found["totals"]["contraction_flops"] == 2 * 64**3


# The gradient of a depthwise convolution's weights: XLA computes a dense one and masks it.
DEPTHWISE = """
import jax, jax.numpy as jnp
dims = jax.lax.conv_dimension_numbers((8, 18, 18, 32), (3, 3, 1, 32), ("NHWC", "HWIO", "NHWC"))
def apart(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=dims,
                                        feature_group_count=32)
@jax.jit
def train(w, x):
    def loss(w):
        y, _ = jax.lax.scan(lambda y, w: (y @ w, None), apart(x, w["apart"]), w["mixed"])
        return (y ** 2).mean()
    value, g = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, g), value
w = {"apart": jnp.ones((3, 3, 1, 32)) * 0.1, "mixed": jnp.ones((2, 32, 32)) * 0.1}
x = jnp.ones((8, 18, 18, 32))
for _ in range(16):
    w, value = train(w, x)
print(value.shape)
"""


def test_kernels_that_do_more_than_their_function_defines_are_named(folder: Path) -> None:
    found = report(folder, DEPTHWISE)
    apart, mixed = 2 * 8 * 16 * 16 * 9 * 32, 2 * 2 * 8 * 16 * 16 * 32 * 32
    defined = sum(row["defined_flops"] or 0 for row in found["kernels"])
    assert defined == pytest.approx(2 * apart + 3 * mixed)
    assert found["totals"]["contraction_flops"] == (1 + 32) * apart + 3 * mixed
    finding = next(f for f in found["findings"] if f["code"] == "TR306")
    assert finding["evidence"]["executed_flops"] == 32 * apart
    assert finding["evidence"]["defined_flops"] == pytest.approx(apart)
