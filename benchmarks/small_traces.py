"""Kineto traces of a made-up transformer, of any size: what small-file benchmarks read.

Ops with shapes, the runtime calls inside them, the kernels that these launch and the arrows
between them, as torch.profiler writes them with record_shapes; names, times and sizes are ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DEVICE = "NVIDIA H100 80GB HBM3"
PID, TID, STREAM = 4200, 4200, 7
BATCH, LENGTH, WIDTH, HEADS = 8, 512, 1024, 16
ROWS = BATCH * LENGTH
FIRST_US = 1_700_000_000_000.0
GAP_US = 3.0

_FUNCTOR = "at::native::{}Functor<c10::BFloat16>, std::array<char*, {}ul>"
# Op, its inputs, its kernel, and how long that takes.
LAYER: tuple[tuple[str, list[list[int]], str, float], ...] = (
    (
        "aten::native_layer_norm",
        [[ROWS, WIDTH], [], [WIDTH], [WIDTH], []],
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
        "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*)",
        9.5,
    ),
    (
        "aten::addmm",
        [[3 * WIDTH], [ROWS, WIDTH], [WIDTH, 3 * WIDTH], [], []],
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
        44.0,
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        [[BATCH, HEADS, LENGTH, WIDTH // HEADS]] * 3 + [[], [], [], []],
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false,"
        " cutlass::bfloat16_t>, false, false, false>(pytorch_flash::Flash_fwd_params)",
        31.0,
    ),
    (
        "aten::add",
        [[ROWS, WIDTH], [ROWS, WIDTH], []],
        f"void at::native::vectorized_elementwise_kernel<4, {_FUNCTOR.format('CUDAAdd', 3)}>"
        "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
        8.0,
    ),
    (
        "aten::gelu",
        [[ROWS, 4 * WIDTH], []],
        f"void at::native::vectorized_elementwise_kernel<4, {_FUNCTOR.format('Gelu', 2)}>"
        "(int, at::native::GeluFunctor<c10::BFloat16>, std::array<char*, 2ul>)",
        22.0,
    ),
    (
        "aten::mm",
        [[ROWS, 4 * WIDTH], [4 * WIDTH, WIDTH]],
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x256x64_warpgroupsize2x1x1_execute",
        58.0,
    ),
    (
        "aten::copy_",
        [[ROWS, WIDTH], [ROWS, WIDTH], []],
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda"
        "(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>, 4>(int)",
        7.0,
    ),
)


class Clock:
    """Times and ids that go up."""

    def __init__(self, rank: int) -> None:
        self.host_us, self.device_us, self.next_id = FIRST_US + rank, FIRST_US + rank, 1

    def call(self, op: str, dims: list[list[int]], kernel: str, took_us: float) -> list[Any]:
        """An op, its launch, its kernel, and the arrow from one to the other."""
        known, start = self.next_id, self.host_us
        self.next_id += 1
        launch = start + 4.0
        self.device_us = max(self.device_us, launch + 5.0) + 1.0
        at, self.device_us, self.host_us = self.device_us, self.device_us + took_us, start + 14.0
        runtime = {"External id": known, "cbid": 211, "correlation": known}
        return [
            _event("cpu_op", op, start, 11.0, _op_args(known, dims)),
            _event("cuda_runtime", "cudaLaunchKernel", launch, 4.0, runtime),
            _event("kernel", kernel, at, took_us, _kernel_args(known), device=True),
            _arrow("s", known, launch, PID, TID),
            _arrow("f", known, at, 0, STREAM) | {"bp": "e"},
        ]

    def step(self, number: int, layers: int) -> list[Any]:
        """One step of so many layers; layers differ in how long they take."""
        start = self.host_us
        events = [
            event
            for layer in range(layers)
            for op, dims, kernel, took_us in LAYER
            for event in self.call(op, dims, kernel, took_us * (1 + 0.01 * (layer % 7)))
        ]
        self.host_us = self.device_us + GAP_US
        args = {"Record function id": 0, "External id": self.next_id}
        self.next_id += 1
        name = f"ProfilerStep#{number}"
        return [_event("user_annotation", name, start, self.host_us - start, args), *events]


def _event(
    category: str, name: str, start_us: float, took_us: float, args: Any, device: bool = False
) -> dict[str, Any]:
    pid, tid = (0, STREAM) if device else (PID, TID)
    times = {"ts": round(start_us, 3), "dur": round(took_us, 3)}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": args}


def _arrow(phase: str, known: int, at_us: float, pid: int, tid: int) -> dict[str, Any]:
    place = {"pid": pid, "tid": tid, "ts": round(at_us, 3)}
    return {"ph": phase, "id": known, **place, "cat": "ac2g", "name": "ac2g"}


def _op_args(known: int, dims: list[list[int]]) -> dict[str, Any]:
    kinds = ["c10::BFloat16" if d else "Scalar" for d in dims]
    values = ["" if d else "1" for d in dims]
    return {
        "External id": known,
        "Record function id": 0,
        "Concrete Inputs": values,
        "Input type": kinds,
        "Input Dims": dims,
        "Ev Idx": known,
    }


def _kernel_args(known: int) -> dict[str, Any]:
    return {
        "External id": known,
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": STREAM,
        "correlation": known,
        "registers per thread": 32,
        "shared memory": 0,
        "blocks per SM": 31.03,
        "warps per SM": 124.12,
        "grid": [4096, 1, 1],
        "block": [128, 1, 1],
        "est. achieved occupancy %": 100,
    }


def write_trace(target: Path, size_bytes: int, rank: int = 0, ranks: int = 1) -> int:
    """Write a trace of about a size; how many kernels it has."""
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": DEVICE, "totalGlobalMem": 84_942_979_072, "numSms": 132}
        ],
    }
    if ranks > 1:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
    clock, parts, size, step = Clock(rank), list[str](), 0, 0
    while size < size_bytes:
        parts += [json.dumps(event) for event in clock.step(step, layers=24)]
        size, step = sum(map(len, parts)) + 2 * len(parts), step + 1
    target.write_text(json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(parts) + "\n]}")
    return sum('"cat": "kernel"' in part for part in parts)
