"""What is timed on a torch device: streams, host links, launching, matrix products."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from timeroof.core.errors import UsageError
from timeroof.probe.launch import LaunchCost, timed
from timeroof.probe.sampling import Figure, Plan, SweepPoint, sample, wrong_result

if TYPE_CHECKING:
    import torch

    Call = Callable[[], torch.Tensor]


def _usable(name: str) -> torch.device:
    """A torch device that can compute; else one line that says why not."""
    try:
        import torch

        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.ones(1, device=device).add(1).item()
    except Exception as error:  # torch raises anything, its text may be pages
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise UsageError(
            f"the device {name!r} cannot be used here ({reason})",
            advice="name a device that torch has on this computer, such as cuda, or leave it out",
        ) from error
    return device


class DeviceTimer:
    """Seconds of work on a device, without the time to submit it where events exist."""

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.device = _usable(device)
        self._clock = clock
        # ROCm's torch calls its devices cuda too.
        self.has_events = self.device.type == "cuda"
        self._flush: torch.Tensor | None = None

    def synchronize(self) -> None:
        """Wait until the device has done everything; a CPU always has."""
        import torch

        wait = getattr(getattr(torch, self.device.type, None), "synchronize", None)
        if self.device.type != "cpu" and wait is not None:
            wait()

    def run(self, call: Callable[[], object]) -> Callable[[int], float]:
        """A `run` for sampling: seconds of so many calls in a row."""

        def synchronized() -> float:
            self.synchronize()
            return self._clock()

        if self.has_events:
            return lambda repetitions: self._by_events(call, repetitions)
        return timed(call, synchronized)

    def submit(self, call: Callable[[], object]) -> Callable[[int], float]:
        """A `run` for sampling of the host's share: seconds until so many calls are queued."""
        queue = timed(call, self._clock)

        def run(repetitions: int) -> float:
            self.synchronize()
            return queue(repetitions)

        return run

    def cold(self, call: Callable[[], object], flush_bytes: int) -> Callable[[int], float]:
        """Like `run`, with the device's cache emptied before each sample."""
        inner = self.run(call)

        def run(repetitions: int) -> float:
            self.flush_cache(flush_bytes)
            return inner(repetitions)

        return run

    def flush_cache(self, size_bytes: int) -> None:
        """Write over more memory than the cache holds."""
        import torch

        if self._flush is None or self._flush.numel() < size_bytes:
            self._flush = torch.ones(size_bytes, dtype=torch.int8, device=self.device)
        self._flush.neg_()

    def _by_events(self, call: Callable[[], object], repetitions: int) -> float:
        import torch

        self.synchronize()
        event: Callable[..., torch.cuda.Event] = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        for _ in range(repetitions):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


VALUE_BYTES = 4
# Bytes moved per value, and arrays used, of each pattern on fp32.
PATTERNS = {"read": (1, 1), "write": (1, 1), "update": (2, 1), "copy": (2, 2), "triad": (3, 3)}


class Streaming(NamedTuple):
    """A call that streams once over a working set."""

    call: Call
    moved_bytes: float
    size_bytes: int


def stream(pattern: str, size_bytes: int, device: str) -> Streaming:
    """A pattern over arrays that together take a size."""
    import torch

    moves, arrays = PATTERNS[pattern]
    count = max(1, size_bytes // arrays // VALUE_BYTES)
    a, b, c = (torch.ones(count if k < arrays else 1, device=device) for k in range(3))
    calls: dict[str, Call] = {
        "read": lambda: torch.sum(a),
        "write": lambda: a.fill_(2.0),
        "update": a.neg_,
        "copy": lambda: a.copy_(b),
        "triad": lambda: torch.add(b, c, alpha=3.0, out=a),
    }
    size = count * VALUE_BYTES
    return Streaming(calls[pattern], float(moves * size), arrays * size)


def check_stream(pattern: str, call: Call) -> None:
    """Raise unless one pass leaves what the pattern must leave behind."""
    result = call()
    expected = {"read": None, "write": 2.0, "update": -1.0, "copy": 1.0, "triad": 4.0}[pattern]
    good = bool((result == expected).all()) if expected is not None else float(result) > 0
    if not good:
        raise wrong_result(f"{pattern} stream")


def measure_stream(
    pattern: str, size_bytes: int, timer: DeviceTimer, plan: Plan, *, flush_bytes: int = 0
) -> SweepPoint:
    """Useful bytes per second at a working set; with the cache flushed before each sample."""
    work = stream(pattern, size_bytes, str(timer.device))
    check_stream(pattern, work.call)
    run = timer.cold(work.call, flush_bytes) if flush_bytes else timer.run(work.call)
    figure = Figure.of(sample(run, plan), amount=work.moved_bytes)
    return SweepPoint(
        pattern=pattern,
        size_bytes=work.size_bytes,
        threads=0,
        rate_per_s=figure.rate_per_s,
        spread=figure.spread,
    )


def measure_link(to_device: bool, size_bytes: int, timer: DeviceTimer, plan: Plan) -> Figure:
    """Bytes per second between host and device, from pinned memory where there is any."""
    import torch

    pinned = timer.device.type == "cuda"
    host = torch.ones(size_bytes, dtype=torch.uint8, pin_memory=pinned)
    there = torch.zeros(size_bytes, dtype=torch.uint8, device=timer.device)
    target, source = (there, host) if to_device else (host, there)
    call = lambda: target.copy_(source, non_blocking=pinned)  # noqa: E731 - a call to repeat
    figure = Figure.of(sample(timer.run(call), plan), amount=float(size_bytes))
    timer.synchronize()
    if not bool((target == source).all()):
        raise wrong_result("host-device copy")
    return figure


def measure_device_launches(timer: DeviceTimer, plan: Plan, nodes: int = 100) -> list[LaunchCost]:
    """An op on one element: per kernel in the stream, to submit it, and as a node of a graph."""
    import torch

    one = torch.ones(1, device=timer.device)
    runs = [
        ("kernel in a stream", timer.run(one.zero_), 1),
        ("submit from the host", timer.submit(one.zero_), 1),
    ]
    if timer.has_events:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(nodes):
                one.zero_()
        runs.append(("graph replay, per node", timer.run(graph.replay), nodes))
    return [LaunchCost(what, Figure.of(sample(run, plan), ops)) for what, run, ops in runs]


DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

# How far an entry of a product may lie from the exact one, against the largest entry: what
# sums of two thousand terms in the shortest float lose.
TOLERANCE = 0.05


def operands(precision: str, size: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two random square matrices, the same in every run. Random, because GPUs draw less power on
    regular data and then clock higher than they ever do on real data."""
    import torch

    generator = torch.Generator().manual_seed(2009)
    shape = (size, size)

    def one() -> torch.Tensor:
        if precision == "int8":
            return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
        return torch.randn(shape, generator=generator).to(getattr(torch, DTYPES[precision]))

    return one().to(device), one().to(device)


def product(left: torch.Tensor, right: torch.Tensor) -> Call:
    """A call that multiplies two matrices into a third that exists already."""
    import torch

    if left.dtype == torch.int8:
        return lambda: torch._int_mm(left, right)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def check_product(result: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Raise unless the first row of a product is what fp64 gives, within what a dtype keeps."""
    exact = left[:1].cpu().double() @ right.cpu().double()
    error = (result[:1].cpu().double() - exact).abs().max()
    if not float(error) <= TOLERANCE * float(exact.abs().max()):
        raise wrong_result("matrix product")


def measure_gemm(precision: str, size: int, timer: DeviceTimer, plan: Plan) -> Figure:
    """Operations per second (a multiply-add counts two) of a square product."""
    left, right = operands(precision, size, str(timer.device))
    call = product(left, right)
    check_product(call(), left, right)
    return Figure.of(sample(timer.run(call), plan), amount=2.0 * size**3)


@contextmanager
def tf32(enabled: bool) -> Iterator[None]:
    """Allow or forbid TF32 in matrix products inside the block."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if enabled else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
