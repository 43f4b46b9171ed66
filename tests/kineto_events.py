"""Events of a Kineto trace as PyTorch writes them, for small invented traces."""

from __future__ import annotations

from typing import Any

HOST, MAIN, ENGINE, STREAM = 100, 100, 101, 7


def event(
    cat: str, name: str, ts: float, dur: float, tid: int = MAIN, pid: int = HOST, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def op(name: str, ts: float, dur: float, tid: int = MAIN, **args: Any) -> dict[str, Any]:
    return event("cpu_op", name, ts, dur, tid, **args)


def launch(
    correlation: int, ts: float, dur: float = 2, tid: int = MAIN, name: str = "cudaLaunchKernel"
) -> dict[str, Any]:
    return event("cuda_runtime", name, ts, dur, tid, correlation=correlation)


def kernel(
    name: str,
    ts: float,
    dur: float,
    correlation: int,
    stream: int = STREAM,
    grid: Any = (1, 1, 1),
    **args: Any,
) -> dict[str, Any]:
    return event(
        "kernel",
        name,
        ts,
        dur,
        stream,
        0,
        stream=stream,
        device=0,
        correlation=correlation,
        grid=list(grid),
        **args,
    )


def document(events: list[dict[str, Any]], **top: Any) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Toy GPU"}],
        "distributedInfo": {"rank": 3},
        "traceEvents": events,
        "baseTimeNanoseconds": 0,
        **top,
    }


def tensors(*dims: list[int], dtype: str = "float") -> dict[str, Any]:
    """Arguments of an op: tensors of these sizes, numbers where a list is empty."""
    types = [dtype if d else "Scalar" for d in dims]
    return {"Input Dims": list(dims), "Input type": types, "Concrete Inputs": [""] * len(dims)}
