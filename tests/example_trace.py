"""Writes `examples/trace.json.gz`: three training steps of a small GPT on an H100, made up by us.

    python -m tests.example_trace examples/trace.json.gz

Nothing in it was recorded. Ops, shapes and launches are those of a plain PyTorch program in
bfloat16; durations follow from the work at a share of the device's rates. The program has
the usual sins: a GELU of seven small kernels, batches that are awaited, `item()` twice a step.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

DEVICE = "NVIDIA H100 80GB HBM3"
BATCH, TOKENS, WIDTH, HEADS, LAYERS, WORDS, STEPS = 8, 512, 1024, 16, 2, 32768, 3
ROWS, HIDDEN, BF16_BYTES = BATCH * TOKENS, 4 * WIDTH, 2
PROCESS, MAIN, ENGINE, STREAM = 4000, 4000, 4001, 7
# What a well-tuned kernel reaches of 989 TFLOP/s and 3.35 TB/s.
FLOPS_PER_US, BYTES_PER_US, LAUNCH_US = 600e6, 2.6e6, 5.0

VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, {}ul> >(int)"
ADD = VECTORIZED.format("at::native::CUDAFunctor_add<c10::BFloat16>", 3)
GEMM = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_{}_n_tilesize128x128x64_warpgroupsize1x1x1"
    "_execute_segment_k_off_kernel__5x_cublas"
)
FLASH = "void pytorch_flash::flash_{}_kernel<pytorch_flash::Flash_{}_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>, true>()"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)"

INDEXED = ["c10::BFloat16", "long int"]

Shape = Sequence[int]


class Trace:
    """A host that launches and one stream that follows."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now_us, self.free_us = 1000.0, 0.0
        self.thread, self.ids, self.launches = MAIN, 0, 0

    def event(self, cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        at = {"pid": PROCESS, "tid": self.thread}
        made = {"ph": "X", "cat": cat, "name": name, **at, "ts": round(ts, 3), "dur": round(dur, 3)}
        self.events.append(made | {"args": args})
        return self.events[-1]

    @contextmanager
    def span(self, cat: str, name: str, **args: Any) -> Iterator[None]:
        begin, made = self.now_us, self.event(cat, name, self.now_us, 0.0, **args)
        self.now_us += 1.0
        yield
        self.now_us += 1.0
        made["dur"] = round(self.now_us - begin, 3)

    @contextmanager
    def op(self, name: str, *dims: Shape, kinds: Sequence[str] = (), values: Sequence[str] = (),
           **args: Any) -> Iterator[None]:  # fmt: skip
        self.ids += 1
        inputs = [list(d) for d in dims] + [[] for _ in values]
        types = [*(kinds or ["c10::BFloat16"] * len(dims)), *["Scalar"] * len(values)]
        shown = [""] * len(dims) + list(values)
        described = {"Input Dims": inputs, "Input type": types, "Concrete Inputs": shown}
        with self.span("cpu_op", name, **{"External id": self.ids}, **described, **args):
            yield

    def on_device(self, cat: str, name: str, dur: float, call: str, **args: Any) -> None:
        self.launches += 1
        ids = {"External id": self.ids, "correlation": self.launches}
        self.event("cuda_runtime", call, self.now_us, LAUNCH_US, **ids)
        self.now_us += LAUNCH_US
        begin = max(self.now_us + 2.0, self.free_us + 1.0)
        where = {"device": 0, "context": 1, "stream": STREAM}
        made = self.event(cat, name, begin, dur, **ids, **where, **args)
        made |= {"pid": 0, "tid": STREAM}
        self.free_us = begin + dur

    def kernel(self, name: str, moved: float, flops: float = 0.0, reached: float = 1.0) -> None:
        dur = max(moved / BYTES_PER_US, flops / FLOPS_PER_US, 1.5) / reached
        blocks = max(1, int(moved // 65536))
        grid = {"grid": [blocks, 1, 1], "block": [128, 1, 1]}
        self.on_device("kernel", name, dur, "cudaLaunchKernel", **grid)

    def copy(self, name: str, size_bytes: int, dur: float) -> None:
        self.on_device("gpu_memcpy", name, dur, "cudaMemcpyAsync", bytes=size_bytes)

    def wait(self) -> None:
        """The host stands until the stream is empty."""
        took = max(self.free_us - self.now_us, 1.0)
        self.event("cuda_runtime", "cudaStreamSynchronize", self.now_us, took)
        self.now_us += took

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        with self.span("python_function", f"nn.Module: {name}"):
            yield


def elements(trace: Trace, op: str, functor: str, *dims: Shape, values: Sequence[str] = ()) -> None:
    """One element-wise op of one kernel."""
    with trace.op(f"aten::{op}", *dims, values=values):
        name = VECTORIZED.format(functor, len(dims) + 1)
        trace.kernel(name, BF16_BYTES * (sum(map(prod, dims)) + prod(dims[0])))


def product(trace: Trace, op: str, a: Shape, b: Shape, *bias: Shape, layout: str = "tn") -> None:
    (m, k), (_, n) = a, b
    with trace.op(f"aten::{op}", *bias, a, b):
        moved = BF16_BYTES * (m * k + k * n + m * n)
        # One of the products is left at half of what it could reach.
        trace.kernel(GEMM.format(layout), moved, 2.0 * m * k * n, 0.5 if n == WORDS else 0.9)


def linear(trace: Trace, name: str, inputs: int, outputs: int, sequence: int) -> None:
    with (
        trace.module(name),
        trace.op("aten::linear", (BATCH, TOKENS, inputs), (outputs, inputs), (outputs,),
                 **{"Sequence number": sequence}),
    ):  # fmt: skip
        product(trace, "addmm", (ROWS, inputs), (inputs, outputs), (outputs,))


def norm(trace: Trace, name: str) -> None:
    data = (BATCH, TOKENS, WIDTH)
    with trace.module(name), trace.op("aten::native_layer_norm", data, (), (WIDTH,), (WIDTH,)):
        trace.kernel(NORM, 2 * BF16_BYTES * prod(data))


def gelu_in_pieces(trace: Trace) -> None:
    """0.5 x (1 + tanh(0.8 (x + 0.04 x³))) as it is written, a kernel per sign."""
    data = (BATCH, TOKENS, HIDDEN)
    with trace.module("NewGELU_0"):
        elements(trace, "pow", "at::native::pow_tensor_scalar_kernel_impl", data, values=["3."])
        elements(trace, "mul", "at::native::AUnaryFunctor<MulFunctor>", data, values=["0.044715"])
        elements(trace, "add", "at::native::CUDAFunctor_add<c10::BFloat16>", data, data)
        elements(trace, "mul", "at::native::AUnaryFunctor<MulFunctor>", data, values=["0.797885"])
        elements(trace, "tanh", "at::native::tanh_kernel_cuda", data)
        elements(trace, "add", "at::native::CUDAFunctorOnSelf_add", data, values=["1."])
        elements(trace, "mul", "at::native::BinaryFunctor<MulFunctor>", data, data)


def attention(trace: Trace) -> None:
    data = (BATCH, HEADS, TOKENS, WIDTH // HEADS)
    kept = 4.0 * BATCH * HEADS * TOKENS * (TOKENS + 1) / 2 * (WIDTH // HEADS)
    with trace.op("aten::_scaled_dot_product_flash_attention", data, data, data,
                  values=["0.", "True", "False"]):  # fmt: skip
        trace.kernel(FLASH.format("fwd", "fwd"), 4 * BF16_BYTES * prod(data), kept, 0.6)


def block(trace: Trace, index: int) -> None:
    data = (BATCH, TOKENS, WIDTH)
    with trace.module(f"Block_{index}"):
        norm(trace, f"LayerNorm_{2 * index}")
        linear(trace, f"Linear_{4 * index}", WIDTH, 3 * WIDTH, 10 * index)
        attention(trace)
        linear(trace, f"Linear_{4 * index + 1}", WIDTH, WIDTH, 10 * index + 1)
        elements(trace, "add", "at::native::CUDAFunctor_add<c10::BFloat16>", data, data)
        norm(trace, f"LayerNorm_{2 * index + 1}")
        linear(trace, f"Linear_{4 * index + 2}", WIDTH, HIDDEN, 10 * index + 2)
        gelu_in_pieces(trace)
        linear(trace, f"Linear_{4 * index + 3}", HIDDEN, WIDTH, 10 * index + 3)
        elements(trace, "add", "at::native::CUDAFunctor_add<c10::BFloat16>", data, data)


def forward(trace: Trace) -> None:
    with trace.module("GPT_0"):
        with trace.op("aten::embedding", (WORDS, WIDTH), (BATCH, TOKENS), kinds=INDEXED):
            rows = BF16_BYTES * 2 * ROWS * WIDTH
            trace.kernel(
                "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>()",
                rows,
            )
        for index in range(LAYERS):
            block(trace, index)
        with trace.module("Linear_8"):
            product(trace, "mm", (ROWS, WIDTH), (WIDTH, WORDS))
    with trace.op("aten::_log_softmax", (ROWS, WORDS), values=["1", "False"]):
        trace.kernel("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, LogSoftMaxForwardEpilogue>()",
                     2 * BF16_BYTES * ROWS * WORDS)  # fmt: skip


@contextmanager
def node(trace: Trace, name: str, sequence: int) -> Iterator[None]:
    numbered = {"Sequence number": sequence, "Fwd thread id": 1}
    title = f"autograd::engine::evaluate_function: {name}"
    with trace.op(title, **numbered), trace.op(name, **numbered):
        yield


def gradients(trace: Trace, inputs: int, outputs: int, sequence: int) -> None:
    """Of a linear layer: for its input and for its weights."""
    with node(trace, "AddmmBackward0", sequence):
        product(trace, "mm", (ROWS, outputs), (outputs, inputs), layout="nn")
        product(trace, "mm", (outputs, ROWS), (ROWS, inputs), layout="nt")


def backward(trace: Trace) -> None:
    trace.thread = ENGINE
    with (
        node(trace, "LogSoftmaxBackward0", 90),
        trace.op(
            "aten::_log_softmax_backward_data", (ROWS, WORDS), (ROWS, WORDS), values=["1", "15"]
        ),
    ):
        trace.kernel("void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, c10::BFloat16, LogSoftMaxBackwardEpilogue>()",
                     3 * BF16_BYTES * ROWS * WORDS)  # fmt: skip
    gradients(trace, WIDTH, WORDS, 80)
    data, wide = (BATCH, TOKENS, WIDTH), (BATCH, TOKENS, HIDDEN)
    heads = (BATCH, HEADS, TOKENS, WIDTH // HEADS)
    for index in reversed(range(LAYERS)):
        gradients(trace, HIDDEN, WIDTH, 10 * index + 3)
        for _ in range(3):
            elements(trace, "mul", "at::native::BinaryFunctor<MulFunctor>", wide, wide)
        with trace.op("aten::tanh_backward", wide, wide):
            name = VECTORIZED.format("at::native::tanh_backward_kernel_cuda", 3)
            trace.kernel(name, 3 * BF16_BYTES * prod(wide))
        gradients(trace, WIDTH, HIDDEN, 10 * index + 2)
        gradients(trace, WIDTH, WIDTH, 10 * index + 1)
        with trace.op("aten::_scaled_dot_product_flash_attention_backward", *[heads] * 5,
                      (BATCH, HEADS, TOKENS), (), (), values=["512", "512", "0.", "True"]):  # fmt: skip
            kept = 10.0 * BATCH * HEADS * TOKENS * (TOKENS + 1) / 2 * (WIDTH // HEADS)
            trace.kernel(FLASH.format("bwd", "bwd"), 8 * BF16_BYTES * prod(heads), kept, 0.5)
        gradients(trace, WIDTH, 3 * WIDTH, 10 * index)
        elements(trace, "add", "at::native::CUDAFunctor_add<c10::BFloat16>", data, data)
    trace.thread = MAIN


def optimizer(trace: Trace) -> None:
    """A step of SGD, a kernel per weight: none of them is large."""
    weights = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN)] * LAYERS
    with trace.span("user_annotation", "Optimizer.step#SGD.step"):
        for shape in [*weights, (WORDS, WIDTH)]:
            with trace.op("aten::add_", shape, shape, values=["-0.01"]):
                trace.kernel(ADD, 3 * BF16_BYTES * prod(shape))
        for _ in range(4 * LAYERS):
            with trace.op("aten::add_", (WIDTH,), (WIDTH,), values=["-0.01"]):
                trace.kernel(ADD, 3 * BF16_BYTES * WIDTH)


def item(trace: Trace) -> None:
    """A number of the device's on the host: both wait for it."""
    with trace.op("aten::item", ()), trace.op("aten::_local_scalar_dense", ()):
        trace.copy("Memcpy DtoH (Device -> Pageable)", 2, 1.6)
        trace.wait()


def step(trace: Trace, number: int) -> None:
    with trace.span("user_annotation", f"ProfilerStep#{number}"):
        loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        with trace.span("user_annotation", loader):
            trace.now_us += 900.0  # the host makes a batch, the device has nothing to do
        with trace.op("aten::copy_", (BATCH, TOKENS), (BATCH, TOKENS), kinds=["long int"] * 2):
            trace.copy("Memcpy HtoD (Pageable -> Device)", 8 * ROWS, 6.0)
        forward(trace)
        backward(trace)
        item(trace)  # is the gradient too large? The host asks, the device stands still
        trace.now_us += 120.0
        optimizer(trace)
        item(trace)


def document() -> dict[str, Any]:
    """The whole trace."""
    trace = Trace()
    for number in range(STEPS):
        step(trace, number + 1)
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": DEVICE, "computeMajor": 9, "numSms": 132}],
        "made_by": "timeroof's tests/example_trace.py: invented, not recorded",
        "traceEvents": trace.events,
    }


def packed() -> bytes:
    """The file, the same bytes every time."""
    text = json.dumps(document(), separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(packed())
