"""A command started to be disturbed: its processes, however they were started, and its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "TIMEROOF_TEST_MARK"
# A worker pool for inputs of any size: the same as a reader of hundreds of megabytes has.
WITH_WORKERS = (
    "import sys; sys.path[0] = sys.prefix; from timeroof.read import fleet; fleet.WORTH_BYTES = 0;"
    " fleet.workers_for = lambda *_: 2; from timeroof.__main__ import run; run()"
)


@dataclass
class Started:
    """A command in a process group of its own, with a temporary folder of its own."""

    process: subprocess.Popen[bytes]
    mark: str
    temporary: Path

    @classmethod
    def of(cls, folder: Path, *words: str, workers: bool = False, **variables: str) -> Started:
        temporary = folder / f"tmp-{uuid.uuid4().hex[:8]}"
        temporary.mkdir()
        mark = uuid.uuid4().hex
        begin = ["-c", WITH_WORKERS] if workers else ["-m", "timeroof"]
        around = os.environ | {MARK: mark, "TMPDIR": str(temporary), "PYTHONPATH": ""} | variables
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, *begin, *words], cwd=folder, env=around, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
        return cls(process, mark, temporary)

    def alive(self) -> list[str]:
        """Processes that carry the mark, whoever their parent is now."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark.encode() in (place / "environ").read_bytes():
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def gone_after(self, limit_s: float = 1.0) -> list[str]:
        """What still runs so long after now; a busy machine has as much longer as it is busy."""
        limit_s *= max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))
        end = time.monotonic() + limit_s
        left = self.alive()
        while left and time.monotonic() < end:
            time.sleep(0.02)
            self.process.poll()
            left = self.alive()
        return left

    def left_behind(self) -> list[str]:
        """Files of its temporary folder."""
        return sorted(str(p.relative_to(self.temporary)) for p in self.temporary.rglob("*"))

    def end(self) -> None:
        """Whatever happens, nothing of a test runs on."""
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark.encode() in (place / "environ").read_bytes():
                    os.kill(int(place.name), 9)
        self.process.wait()


def write_trace(path: Path, kernels: int) -> Path:
    """A Kineto trace of so many kernels, each launched by an op: about 700 bytes for each."""
    events = []
    for k in range(kernels):
        at, common = 100.0 + 20 * k, {"ph": "X", "pid": 1}
        args = {"External id": k, "correlation": k}
        shapes = {"Input Dims": [[8 + k % 50, 64], [64, 32]], "Input type": ["float", "float"]}
        events += [
            common | {"cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": at, "dur": 8,
                      "args": args | shapes},
            common | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": at + 2,
                      "dur": 4, "args": args},
            common | {"cat": "kernel", "name": f"sgemm_{k % 200}", "pid": 0, "tid": 7, "ts": at + 9,
                      "dur": 5, "args": args | {"device": 0, "stream": 7}},
        ]  # fmt: skip
    device = {"name": "NVIDIA H100 80GB HBM3", "id": 0}
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    return path
