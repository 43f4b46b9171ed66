"""TensorFlow programs under `timeroof run`: fit, functions, XLA, eager, sessions, and odd ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.live_programs import check_account, folder, python, report, run

__all__ = ["folder"]
pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow

FIT = """
import keras, numpy as np
keras.utils.set_random_seed(0)
layers = keras.layers
model = keras.Sequential([
    layers.Input((20, 20, 4)), layers.Conv2D(8, 3, activation="relu", name="first"),
    layers.DepthwiseConv2D(3, name="apart"), layers.Flatten(), layers.Dense(10, name="last"),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], jit_compile=%s)
x = np.random.rand(16 * 12, 20, 20, 4).astype("float32")
y = np.random.randint(0, 10, 16 * 12)
model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_data=(x, y))
"""
CONV, APART, LAST = 2 * 16 * 18**2 * 9 * 4 * 8, 2 * 16 * 16**2 * 9 * 8, 2 * 16 * 16**2 * 8 * 10


def test_fit_is_steps_of_training_and_of_evaluation(folder: Path) -> None:
    found = report(folder, FIT % "False")
    totals = found["totals"]
    # The first layer's input needs no gradient.
    assert totals["contraction_flops"] == 2 * CONV + 3 * (APART + LAST)
    assert totals["known_time_share"] > 0.95
    assert totals["steps"]["mark"] == "a call of train_step"
    kinds = {kind["name"]: kind["count"] for kind in totals["steps"]["kinds"]}
    assert kinds["training"] in (21, 22, 23, 24)
    assert any("evaluation" in name for name in kinds)
    rows = {(row["op"], row["module"], row["phase"]) for row in found["kernels"]}
    assert ("tf::_FusedConv2D", "sequential_1.first_1", "forward") in rows
    assert ("tf::Conv2DBackpropFilter", "sequential_1.first_1", "backward") in rows
    assert any(phase == "optimizer" for _, _, phase in rows)
    assert found["source"]["frameworks"][0]["name"] == "tensorflow"
    check_account(found)


def test_a_compiled_fit_has_the_products_of_its_programs(folder: Path) -> None:
    found = report(folder, FIT % "True")
    assert found["totals"]["known_time_share"] > 0.95
    assert found["totals"]["contraction_flops"] >= 2 * CONV + 3 * LAST
    assert {"forward", "backward", "optimizer"} <= {row["phase"] for row in found["kernels"]}
    check_account(found)


# Attention and a convolution of two groups, in one function that trains.
FUNCTION = """
import tensorflow as tf
B, T, H, D = 4, 16, 2, 8
w = tf.Variable(tf.random.normal((H * D, 3 * H * D)) * 0.1)
f = tf.Variable(tf.random.normal((3, 3, 2, 6)) * 0.1)
image = tf.random.normal((B, 10, 10, 4))
optimizer = tf.keras.optimizers.SGD(0.01)
@tf.function
def train(x):
    with tf.GradientTape() as tape:
        q, k, v = tf.split(tf.reshape(tf.matmul(x, w), (B, T, H, 3 * D)), 3, -1)
        scores = tf.nn.softmax(tf.einsum("bthd,bshd->bhts", q, k))
        mixed = tf.einsum("bhts,bshd->bthd", scores, v)
        half = tf.cast(mixed, tf.bfloat16)
        maps = tf.nn.conv2d(image, f, 1, "VALID")
        loss = tf.reduce_mean(tf.cast(half, tf.float32) ** 2) + tf.reduce_mean(maps ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, [w, f]), [w, f]))
    return loss
x = tf.random.normal((B, T, H * D))
for _ in range(20):
    loss = train(x)
print(float(loss) < 100, type(train).__call__.__name__)
"""


def test_a_function_that_trains_has_the_products_that_it_has_by_hand(folder: Path) -> None:
    found = report(folder, FUNCTION)
    projected, attention = 2 * 4 * 16 * 16 * 48, 2 * 4 * 2 * 16 * 16 * 8
    grouped = 2 * 4 * 8 * 8 * 9 * 2 * 6
    # Neither the input of the projection nor the image needs a gradient.
    assert found["totals"]["contraction_flops"] == 2 * projected + 3 * 2 * attention + 2 * grouped
    assert found["totals"]["known_time_share"] > 0.95
    assert found["totals"]["steps"]["mark"] == "a call of train"
    check_account(found)


EAGER = """
import tensorflow as tf
layer = tf.keras.layers.Dense(8, name="only")
optimizer = tf.keras.optimizers.SGD(0.01)
x = tf.random.normal((32, 16))
for _ in range(16):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x) ** 2)
    optimizer.apply_gradients(zip(
        tape.gradient(loss, layer.trainable_variables), layer.trainable_variables))
"""


def test_eager_ops_have_layers_phases_and_lines(folder: Path) -> None:
    found = report(folder, EAGER)
    product = 2 * 32 * 16 * 8
    assert found["totals"]["contraction_flops"] == 2 * product
    assert found["totals"]["steps"]["mark"] == "SGD.apply"
    rows = {(row["op"], row["module"], row["phase"]): row for row in found["kernels"]}
    assert rows["tf::MatMul", "only", "forward"]["labels"]["source"] == "train.py:8"
    assert ("tf::MatMul", None, "backward") in rows
    assert found["totals"]["idle_by_cause"]["dispatch"] > 0
    assert any(finding["code"] == "TR110" for finding in found["findings"])


READS = """
import numpy as np, tensorflow as tf
w = tf.Variable(tf.ones((128, 128)) * 0.01)
@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss, w.read_value()
x = tf.ones((32, 128))
before, restored = (np.asarray, np.array), False
for turn in range(16):
    loss, kept = train_step(x)
    value = loss.numpy()
    copy = kept.numpy()
    number = float(loss)
    view = np.asarray(kept)
    restored |= turn > 6 and before == (np.asarray, np.array)
print(restored)
"""


def test_lines_that_read_tensors_are_known(folder: Path) -> None:
    found = report(folder, READS)
    assert found["stdout"].strip() == "True"
    waits = {one["line"]: one["calls"] for one in found["totals"]["steps"]["waits"]}
    assert all(waits[f"train.py:{line}"] == pytest.approx(1.0) for line in (14, 15, 16, 17))
    assert found["totals"]["idle_by_cause"]["host-sync"] > 0
    assert not any(finding["code"] == "TR110" for finding in found["findings"])
    check_account(found)


SESSION = """
import numpy as np, tensorflow.compat.v1 as tf
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, (None, 24))
w = tf.Variable(tf.random_normal((24, 6)))
loss = tf.reduce_mean(tf.matmul(x, w) ** 2)
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(20):
        session.run([train, loss], feed_dict={x: np.ones((32, 24), np.float32)})
"""


def test_runs_of_a_session_are_steps(folder: Path) -> None:
    found = report(folder, SESSION)
    assert found["totals"]["contraction_flops"] == 2 * 2 * 32 * 24 * 6
    assert found["totals"]["steps"]["mark"].startswith("a call of session.run")
    assert {"forward", "backward", "optimizer"} <= {row["phase"] for row in found["kernels"]}
    check_account(found)


REFERENCES = """
import numpy as np, tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, (None, 64))
w = tf.get_variable("w", (64, 256))
train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(tf.matmul(x, w) ** 2))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(20):
        session.run(train, feed_dict={x: np.ones((32, 64), np.float32)})
"""


def test_updates_of_variables_of_tensorflow_1_are_known(folder: Path) -> None:
    found = report(folder, REFERENCES)
    assert found["totals"]["known_time_share"] > 0.95
    update = next(row for row in found["kernels"] if row["op"] == "tf::ApplyAdam")
    assert update["flops"] == {"fp32": 12 * 64 * 256}
    check_account(found)


RETRACE = """
import tensorflow as tf
@tf.function
def predict(x, scale):
    return tf.nn.relu(x @ x) * scale
x = tf.random.normal((64, 64))
for turn in range(14):
    predict(x, turn).numpy()
"""


def test_a_function_that_is_traced_in_every_step_is_told_so(folder: Path) -> None:
    found = report(folder, RETRACE)
    assert found["totals"]["idle_by_cause"]["compile"] > 0
    assert "TR109" in {finding["code"] for finding in found["findings"]}
    assert "inference" in {kind["name"] for kind in found["totals"]["steps"]["kinds"]}
    check_account(found)


# Batches come from two other frameworks; the program profiles itself for a while, and dies.
MIXED = """
import jax, jax.numpy as jnp, numpy as np, tensorflow as tf, torch
augment = jax.jit(lambda x: x * 2 + 1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scale = tf.function(lambda x: x / 3)
def batches(count):
    ready = [np.array(augment(jnp.ones((32, 64)))) for _ in range(4)]
    for _ in range(count):
        ready.append(np.array(augment(jnp.ones((32, 64)))))
        yield torch.from_numpy(scale(ready.pop(0)).numpy())
for x in batches(16):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
raise SystemExit(7)
"""


def test_of_three_frameworks_the_one_that_trains_has_the_steps(folder: Path) -> None:
    found = report(folder, MIXED, code=7)
    assert found["source"]["frameworks"][0]["name"] == "torch"
    assert found["totals"]["contraction_flops"] == 2 * 2 * 32 * 64 * 64
    assert found["totals"]["steps"]["mark"] == "SGD.step"


OWN_PROFILER = """
import tensorflow as tf
@tf.function
def predict(x): return tf.nn.relu(x @ x)
x = tf.random.normal((64, 64))
for turn in range(20):
    if turn == 4:
        tf.profiler.experimental.start("trace")
    predict(x)
    if turn == 8:
        tf.profiler.experimental.stop()
import os
print(any(name.endswith(".xplane.pb") for _, _, names in os.walk("trace") for name in names))
os._exit(3)
"""


def test_a_program_that_profiles_itself_goes_first_and_may_die(folder: Path) -> None:
    (folder / "train.py").write_text(OWN_PROFILER)
    done = run(folder, "--json", "report.json", "train.py")
    assert done.returncode == 3
    assert "True" in done.stdout
    assert "Traceback" not in done.stderr


# The function has run before: its graph is made, and only its definition is left to look at.
PROFILED = """
import tensorflow as tf, timeroof
model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"), tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10),
])
optimizer = tf.keras.optimizers.SGD(0.1)
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
x = tf.random.normal((16, 21, 21, 3))
step(x), step(x)
machine = timeroof.machine("toy.toml")
call = type(step).__call__
with timeroof.profile(machine=machine) as block:
    step(x)
with timeroof.profile(machine=machine, steps=6) as steps:
    for _ in range(9):
        step(x)
        steps.step()
watched = timeroof.profile(machine=machine)(step)
for _ in range(7):
    watched(x)
with timeroof.profile(machine=machine) as eager:
    tf.ones((8, 16)) @ tf.ones((16, 4))
for one in (block, steps, watched, eager):
    found = one.report()
    print(found.profile.source.frameworks[0].name, found.totals.contraction_flops)
print(type(step).__call__ is call)
"""


def test_a_block_steps_and_functions_are_profiled_from_inside(folder: Path) -> None:
    (folder / "profiled.py").write_text(PROFILED)
    lines = python(folder, "profiled.py").split("\n")
    training = 2 * 2 * 16 * 10 * 10 * 9 * 3 * 8 + 3 * 2 * 16 * 800 * 10
    assert lines[:3] == [f"tensorflow {float(training)}"] * 3
    assert lines[3:5] == [f"tensorflow {2.0 * 8 * 16 * 4}", "True"]


# The steps of Keras are those of the framework that it computes with; TensorFlow is there as well.
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "%s"
import keras, numpy as np
layers = keras.layers
model = keras.Sequential([layers.Input((24,)), layers.Dense(32, "relu"), layers.Dense(8)])
model.compile("adam", "mse")
model.fit(np.ones((16 * 12, 24), "f"), np.ones((16 * 12, 8), "f"), batch_size=16, epochs=2, verbose=0)
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_keras_on_another_framework_has_its_steps(folder: Path, backend: str) -> None:
    pytest.importorskip(backend)
    found = report(folder, KERAS % backend)
    assert found["source"]["frameworks"][0]["name"] == backend
    assert found["totals"]["contraction_flops"] == 2 * 16 * (2 * 24 * 32 + 3 * 32 * 8)
    assert found["totals"]["steps"]["mark"] in ("a call of train_step", "Adam.step")
    check_account(found)


# A signature of a saved model is called as it is; replicas are traced in threads of their own.
SERVED = """
import tempfile
import tensorflow as tf
class Served(tf.Module):
    def __init__(self): self.w = tf.Variable(tf.ones((24, 8)))
    @tf.function(input_signature=[tf.TensorSpec((None, 24))])
    def serve(self, x): return tf.nn.relu(x @ self.w)
folder = tempfile.mkdtemp()
model = Served()
tf.saved_model.save(model, folder, signatures=model.serve)
serve = tf.saved_model.load(folder).signatures["serving_default"]
for _ in range(20):
    serve(tf.ones((16, 24)))
"""


def test_a_signature_of_a_saved_model_is_a_step(folder: Path) -> None:
    found = report(folder, SERVED)
    assert found["totals"]["contraction_flops"] == 2 * 16 * 24 * 8
    assert found["totals"]["steps"]["mark"].startswith("a call of signature_wrapper")
    assert "inference" in {kind["name"] for kind in found["totals"]["steps"]["kinds"]}


REPLICAS = """
import tensorflow as tf
one = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(one, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = tf.keras.Sequential([tf.keras.layers.Input((24,)), tf.keras.layers.Dense(8)])
    optimizer = tf.keras.optimizers.SGD(0.01)
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x) ** 2)
    variables = layer.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
@tf.function
def train(x): strategy.run(step, (x,))
for _ in range(20):
    train(tf.ones((16, 24)))
"""


def test_replicas_that_train_make_steps_of_training(folder: Path) -> None:
    found = report(folder, REPLICAS)
    assert found["totals"]["contraction_flops"] == 2 * 2 * 2 * 16 * 24 * 8
    assert found["totals"]["steps"]["mark"] == "a call of train"
    assert "training" in {kind["name"] for kind in found["totals"]["steps"]["kinds"]}
    assert found["totals"]["known_time_share"] >= 0.95
    for row in (row for row in found["kernels"] if row["kind"] == "collective"):
        assert row["op"] == "tf::CollectiveReduceV2"
        (sent,) = row["shape"][0]
        # Of two replicas each adds half of what both send.
        assert row["flops"] == {"fp32": row["calls"] * sent / 2}


MICRO_BATCHES = """
import keras, numpy as np
model = keras.Sequential([keras.layers.Input((24,)), keras.layers.Dense(8)])
optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=4)
model.compile(optimizer=optimizer, loss="mse")
model.fit(np.ones((16 * 80, 24), "f"), np.ones((16 * 80, 8), "f"), batch_size=16, verbose=0)
"""


def test_batches_whose_gradients_are_accumulated_are_one_step(folder: Path) -> None:
    found = report(folder, MICRO_BATCHES)
    assert found["totals"]["steps"]["mark"] == "4 calls of train_step"
    assert found["totals"]["steps"]["count"] in (18, 19, 20)
    assert found["totals"]["contraction_flops"] == 4 * 2 * 2 * 16 * 24 * 8
