"""A PyTorch that pretends to have a GPU, for programs in tests: calls are logged, a trace is given."""

from __future__ import annotations

import json
from pathlib import Path

from tests.live.live_programs import MACHINE, MODEL

__all__ = ["MACHINE", "MODEL", "install_pretence"]

# Imported by the program under test; logs what marks the region.
PRETEND = """
import json, os, shutil, sys, torch
here = os.path.dirname(os.path.abspath(__file__))
def log(what):
    with open(os.path.join(here, "marks.log"), "a") as out:
        out.write(what + "\\n")
class Runtime:
    cudaProfilerStart = staticmethod(lambda: log("start"))
    cudaProfilerStop = staticmethod(lambda: log("stop"))
class Profile:
    def __init__(self, **told):
        self.ready = told["on_trace_ready"]
    def start(self): log("trace")
    def step(self): pass
    def stop(self): self.ready(self)
    def export_chrome_trace(self, path): shutil.copy(os.path.join(here, "given.json"), path)
torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
torch.cuda.cudart = lambda: Runtime
torch.cuda.nvtx.range_push = lambda name: log("push " + name)
torch.cuda.nvtx.range_pop = lambda: log("pop")
torch.profiler.profile = Profile
"""


def event(name: str, kind: str, start: float, duration: float, **args: object) -> dict[str, object]:
    """One complete event of a trace."""
    thread = 7 if kind == "kernel" else 1
    return {
        "ph": "X", "cat": kind, "name": name, "pid": 0, "tid": thread, "ts": start,
        "dur": duration, "args": args,
    }  # fmt: skip


def trace_of(kernels: list[str], time_us: float = 50.0) -> dict[str, object]:
    """A trace of some kernels of an A100, one after the other."""
    events = []
    for number, name in enumerate(kernels):
        start = 100.0 * number
        both = {"correlation": number + 1}
        events.append(event("aten::op", "cpu_op", start, 10.0, **{"External id": number + 1}))
        events.append(event("cudaLaunchKernel", "cuda_runtime", start + 1, 2.0, **both))
        events.append(
            event(name, "kernel", start + 20, time_us, device=0, stream=7, context=1, **both)
        )
    device = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0}
    return {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}


def install_pretence(folder: Path, kernels: list[str]) -> None:
    """Put the pretence and its trace beside a program."""
    (folder / "pretend.py").write_text(PRETEND)
    (folder / "given.json").write_text(json.dumps(trace_of(kernels)))
