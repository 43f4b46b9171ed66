"""Matrix products through torch: the peak per precision, checked for their result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from timeroof.probe.problems import wrong_result
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan, sample
from timeroof.probe.torch_timing import DeviceTimer

DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}

# How far an entry of a product may lie from the exact one, against the largest entry: what
# sums of two thousand terms in the shortest float lose.
TOLERANCE = 0.05


def operands(precision: str, size: int, device: str) -> tuple[Any, Any]:
    """Two random square matrices, the same in every run.

    Random, because GPUs draw less power on regular data and then clock higher than they
    ever do on real data.
    """
    import torch

    generator = torch.Generator().manual_seed(2009)
    shape = (size, size)
    if precision == "int8":
        pair = [
            torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8) for _ in range(2)
        ]
    else:
        dtype = getattr(torch, DTYPES[precision])
        pair = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    return pair[0].to(device), pair[1].to(device)


def product(left: Any, right: Any) -> Callable[[], Any]:
    """A call that multiplies two matrices into a third that exists already."""
    import torch

    if left.dtype == torch.int8:
        return lambda: torch._int_mm(left, right)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def check_product(result: Any, left: Any, right: Any) -> None:
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
def torch_threads(threads: int) -> Iterator[None]:
    """Let torch use so many threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
