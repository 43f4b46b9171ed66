"""Work by definition beside work that ran, in three frameworks: what a case needs, what its jaxpr
asks for, what was counted, the ratio and its cause; XLA's and TensorFlow's own counters beside it.

    python benchmarks/framework_counts.py [--small] [--framework torch,jax,tensorflow] 2>/dev/null

conv2d and LSTM with the paper's sizes in every variant and pass; convolutions in groups, attention
and a GPT block as functions of a user's. `--small` shrinks the paper's kernels. Nothing is timed.
Exit code 1 where a count is missing, or differs from the definition without a named cause.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from timeroof.study.case import Case, Plan, Result
from timeroof.study.kernels import kernel as kernel_of
from timeroof.study.worker.own import Own

ONCE = Plan(warmup_s=0, budget_s=0, least=1, most=1, sample_s=1e-9, one_thread_beside_others=False)
FRAMEWORKS = ("torch", "jax", "tensorflow")
BENCHES = {"torch": "torch_bench", "jax": "jax_bench", "tensorflow": "tf_bench"}
VARIANTS = {
    "torch": ("eager", "compile"),
    "jax": ("eager", "compiled"),
    "tensorflow": ("eager", "graph", "xla", "session"),
}
PASSES = ("forward", "backward", "backward-input", "backward-weight")
SMALL: dict[str, dict[str, int]] = {
    "conv2d": {"batch": 2, "filters": 8, "channels": 4, "size": 12},
    "lstm": {"batch": 4, "features": 6, "hidden": 8},
}
B, T, HEADS, D, LAYERS = 2, 16, 2, 8, 3
C = HEADS * D
IMAGE, FILTERS = (4, 16, 16, 32), 32


@dataclass
class Line:
    """One case: what it needs, asks for and does."""

    framework: str
    variant: str
    work: str
    needed: float | None
    asked: float | None = None
    counted: float | None = None
    cause: str = ""
    other_tool: float | None = None

    @property
    def ratio(self) -> float | None:
        """Counted over needed."""
        return self.counted / self.needed if self.counted is not None and self.needed else None

    @property
    def is_explained(self) -> bool:
        """Whether the count is the definition's, or says why it is not."""
        return self.ratio is not None and (abs(self.ratio - 1) < 1e-9 or bool(self.cause))


def bench_of(framework: str, own: Own | None = None) -> Any:
    return import_module(f"timeroof.study.worker.{BENCHES[framework]}").Bench(None, own)


def case_of(
    framework: str, name: str, pass_name: str, variant: str, params: dict[str, Any]
) -> Case:
    # A function of a user's has the number formats that it was written with.
    how = {"framework": framework, "variant": variant, "precision": "fp32" if params else ""}
    return Case(kernel=name, params=params, pass_name=pass_name, **how)


def line_of(case: Case, result: Result, needed: float | None) -> Line:
    labels = result.labels
    asked = labels.get("jaxpr_flops")
    return Line(
        framework=case.framework,
        variant=case.variant,
        work=f"{case.kernel} {case.pass_name}",
        needed=needed,
        asked=float(asked) if asked else None,
        counted=result.contraction_flops,
        cause=labels.get("executed_because", "") if result.status == "done" else result.error or "",
    )


# The paper's kernels.


def paper_lines(framework: str, *, small: bool) -> Iterator[Line]:
    """conv2d and LSTM in every variant and pass."""
    bench = bench_of(framework)
    for name in ("conv2d", "lstm"):
        found = kernel_of(name)
        params = {p.name: p.base for p in found.parameters} | (SMALL[name] if small else {})
        variants = list(VARIANTS[framework])
        if framework == "torch" and name == "lstm":
            variants.append("cell-loop")
        for variant in variants:
            for pass_name in PASSES:
                case = case_of(framework, name, pass_name, variant, params)
                (result,) = bench.measure([case], ONCE)
                if result.status == "unsupported":
                    continue
                line = line_of(case, result, found.contraction(params, pass_name))
                line.other_tool = _other_tool(bench, case)
                yield line


def _other_tool(bench: Any, case: Case) -> float | None:
    """XLA's `cost_analysis` of what jit compiled, `tf.compat.v1.profiler` of what a graph runs."""
    if case.framework == "jax" and case.variant == "compiled":
        called, given = bench._pass(bench._made(case), case)
        return cost_analysis(called, *given)
    if case.framework == "tensorflow" and case.variant == "graph" and case.pass_name == "forward":
        return tf_profiler(case)
    return None


def cost_analysis(called: Any, *given: Any) -> float | None:
    found = called.lower(*given).compile().cost_analysis()
    return float(found["flops"]) if found and "flops" in found else None


def tf_profiler(case: Case) -> float | None:
    tf: Any = import_module("tensorflow")
    kernels: Any = import_module("timeroof.study.worker.tf_kernels")
    bench: Any = import_module("timeroof.study.worker.tf_bench")
    made = kernels.KERNELS[case.kernel](case.params, bench._random(case), False)
    weights, inputs = (tuple(map(tf.constant, a)) for a in (made.weights, made.inputs))
    graph = tf.function(made.function).get_concrete_function(weights, *inputs).graph
    v1 = tf.compat.v1
    options = dict(v1.profiler.ProfileOptionBuilder.float_operation(), output="none")
    found = v1.profiler.profile(graph, options=options)
    return float(found.total_float_ops) if found is not None else None


# Functions as a user writes them: convolutions in groups, attention, a GPT block.


def convolution(framework: str, groups: int) -> Callable[[], Any]:
    """Images and filters of 3×3 in groups, no padding."""
    n, side, _, channels = IMAGE

    def torch_() -> Any:
        import torch

        x = torch.randn(n, channels, side, side)
        w = torch.randn(FILTERS, channels // groups, 3, 3)
        return (lambda x, w: torch.nn.functional.conv2d(x, w, groups=groups)), (x, w)

    def jax_() -> Any:
        import jax

        order = ("NHWC", "HWIO", "NHWC")

        def run(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, (1, 1), "VALID", dimension_numbers=order, feature_group_count=groups
            )

        return run, (jax.numpy.ones(IMAGE), jax.numpy.ones((3, 3, channels // groups, FILTERS)))

    def tensorflow_() -> Any:
        tf: Any = import_module("tensorflow")
        x = tf.ones(IMAGE)
        if groups == channels:
            w = tf.ones((3, 3, channels, 1))
            return (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")), (x, w)
        w = tf.ones((3, 3, channels // groups, FILTERS))
        return (lambda x, w: tf.nn.conv2d(x, w, 1, "VALID")), (x, w)

    return {"torch": torch_, "jax": jax_, "tensorflow": tensorflow_}[framework]


def attention(framework: str) -> Callable[[], Any]:
    """softmax(q kᵀ) v."""

    def torch_() -> Any:
        import torch

        q = [torch.randn(B, HEADS, T, D) for _ in range(3)]
        return torch.nn.functional.scaled_dot_product_attention, tuple(q)

    def jax_() -> Any:
        import jax

        return jax.nn.dot_product_attention, tuple(jax.numpy.ones((B, T, HEADS, D)) for _ in "qkv")

    def tensorflow_() -> Any:
        tf: Any = import_module("tensorflow")

        def run(q: Any, k: Any, v: Any) -> Any:
            return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)

        return run, tuple(tf.ones((B, HEADS, T, D)) for _ in "qkv")

    return {"torch": torch_, "jax": jax_, "tensorflow": tensorflow_}[framework]


def gpt(*, remat: bool) -> Callable[[], Any]:
    """Blocks of a GPT by `lax.scan`, forward and backward in one function."""

    def make() -> Any:
        import jax

        jnp = jax.numpy
        sizes = {"qkv": (C, 3 * C), "out": (C, C), "up": (C, 4 * C), "down": (4 * C, C)}
        weights = [jnp.ones((LAYERS, *size)) for size in sizes.values()]

        def block(x: Any, w: Any) -> Any:
            qkv, out, up, down = w
            parts = (t.reshape(B, T, HEADS, D) for t in jnp.split(x @ qkv, 3, -1))
            x = x + jax.nn.dot_product_attention(*parts).reshape(B, T, C) @ out
            return x + jax.nn.gelu(x @ up) @ down, None

        step = jax.checkpoint(block) if remat else block

        def loss(x: Any, *w: Any) -> Any:
            return (jax.lax.scan(step, x, w)[0] ** 2).sum()

        return jax.grad(loss, argnums=tuple(range(5))), (jnp.ones((B, T, C)), *weights)

    return make


GPT_FORWARD = LAYERS * (2.0 * B * T * 12 * C * C + 4.0 * B * HEADS * T * T * D)


def own_lines(framework: str) -> Iterator[Line]:
    """Functions of a user's own."""
    n, side, _, channels = IMAGE
    products = 2.0 * n * (side - 2) ** 2 * FILTERS * channels * 9
    cases: list[tuple[str, Callable[[], Any], float, tuple[str, ...]]] = []
    for name, groups in (("grouped convolution", 4), ("depthwise convolution", channels)):
        make = convolution(framework, groups)
        cases.append((name, make, products / groups, ("forward", "backward")))
    scores = 4.0 * B * HEADS * T * T * D
    cases.append(("softmax attention", attention(framework), scores, ("forward", "backward")))
    if framework == "jax":
        cases.append(("GPT step, scan", gpt(remat=False), 3 * GPT_FORWARD, ("forward",)))
        # What remat runs again is part of what the program asks for: its forward pass once more.
        cases.append(("GPT step, scan and remat", gpt(remat=True), 4 * GPT_FORWARD, ("forward",)))
    for name, make, forward, passes in cases:
        bench = bench_of(framework, Own(name, make))
        for variant in (v for v in VARIANTS[framework] if v != "session"):
            if name.startswith("GPT") and variant == "eager":
                continue
            for pass_name in passes:
                case = case_of(framework, name, pass_name, variant, {})
                (result,) = bench.measure([case], ONCE)
                if result.status == "unsupported":
                    continue
                needed = forward * (2 if pass_name == "backward" else 1)
                line = line_of(case, result, needed)
                line.cause = line.cause or _cause(line)
                if framework == "jax" and variant == "compiled":
                    line.other_tool = cost_analysis(*_jitted(bench, case))
                yield line


def _jitted(bench: Any, case: Case) -> tuple[Any, ...]:
    called, given = bench._pass(bench._made(case), case)
    return (called, *given)


def _cause(line: Line) -> str:
    """Why a function of a user's runs other products than the textbook has."""
    if line.ratio is None or abs(line.ratio - 1) < 1e-9:
        return ""
    if "remat" in line.work and line.asked == line.counted:
        return "no gradient needs the last product of a block again: remat leaves it out"
    if line.framework == "torch" and "attention backward" in line.work and line.ratio == 1.25:
        return "flash attention computes the scores again"
    if "depthwise" in line.work and line.ratio > 1:
        return "the compiler computes the gradient of grouped weights densely and masks it"
    if line.variant == "xla" and "backward" in line.work and line.ratio > 1:
        return "the forward pass runs again inside the backward pass"
    return ""


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--framework", default=",".join(FRAMEWORKS))
    chosen = parser.parse_args()
    print("| framework | variant | work | needed | jaxpr | counted | ratio | cause | other tool |")
    print("|---|---|---|---|---|---|---|---|---|")
    unexplained = []
    for framework in chosen.framework.split(","):
        if find_spec(framework) is None:
            print(f"{framework} is not installed", file=sys.stderr)
            continue
        for make in (lambda f: paper_lines(f, small=chosen.small), own_lines):
            for line in make(framework):
                ratio = "-" if line.ratio is None else f"{line.ratio:.4g}"
                print(
                    f"| {line.framework} | {line.variant} | {line.work} | {shown(line.needed)} |"
                    f" {shown(line.asked)} | {shown(line.counted)} | {ratio} | {line.cause} |"
                    f" {shown(line.other_tool)} |", flush=True,
                )  # fmt: skip
                unexplained += [] if line.is_explained else [line]
    print(f"{len(unexplained)} lines without a named cause")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
