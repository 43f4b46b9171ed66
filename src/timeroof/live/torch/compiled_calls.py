"""The cost of a compiled kernel: its loops' operations by the formulas of ops, its arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from timeroof.live.torch.recording import CompiledKernel, Described, LoopOp, TensorSeen
from timeroof.work import Call, Cost, Tensor, count
from timeroof.work.cost import unknown
from timeroof.work.dtypes import is_floating, parse_dtype


def compiled_cost(kernel: CompiledKernel, op: Described) -> Cost:
    """FLOPs as ops have them, and each argument's bytes once; unknown where sizes have changed."""
    if kernel.symbolic and not _same_sizes(kernel, op):
        return unknown("a compiled kernel whose sizes differ from those it was compiled with")
    contraction, other = Counter[str](), Counter[str]()
    for loop_op, elements in kernel.work:
        _add(other, _loop_flops(loop_op, elements))
    for product in kernel.products:
        cost = _product(product)
        if cost.contraction is None or cost.other is None:
            return cost
        _add(contraction, cost.contraction)
        _add(other, cost.other)
    return Cost(
        contraction=dict(contraction),
        other=dict(other),
        bytes_read=float(sum(a.read_bytes for a in kernel.arguments)),
        bytes_written=float(sum(a.written_bytes for a in kernel.arguments)),
    )


def _add(total: Counter[str], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        total[name] += value  # type: ignore[assignment]


def _loop_flops(op: LoopOp, elements: int) -> Mapping[str, float]:
    """FLOPs of an operation on so many elements; one each where there is no formula.

    >>> dict(_loop_flops(LoopOp("aten::sigmoid", "torch.float32", 1), 10))
    {'fp32': 40.0}
    """
    dtype = parse_dtype(op.dtype)
    if dtype is None or not is_floating(dtype):
        return {}
    found = count(Call(op.op, (Tensor((elements,), dtype),) * op.operands))
    if found.other is None or found.contraction is None:
        return {dtype: float(elements)}
    return {**found.contraction, **found.other}


def _product(op: Described) -> Cost:
    from timeroof.live.calls import call_of, derived

    return count(call_of(op), derived)


def _same_sizes(kernel: CompiledKernel, op: Described) -> bool:
    """Whether the tensors of a call are as large as they were when the kernel was compiled."""
    read = [a.size_bytes for a in kernel.arguments if a.read_bytes]
    written = [a.size_bytes for a in kernel.arguments if a.written_bytes]
    return read == _sizes(op.inputs) and written == _sizes(op.outputs)


def _sizes(tensors: tuple[object, ...]) -> list[int]:
    found = []
    for tensor in tensors:
        if isinstance(tensor, TensorSeen):
            count_ = 1
            for size in tensor.shape:
                count_ *= size
            found.append(count_ * tensor.item_bytes)
    return found
