"""Sparse tensors (COO): work follows the values that they hold, not their dense shape.

Each sparse argument is a pair of its indices (dimensions by values) and its values. Which rows the
indices name is not recorded: different ones are assumed, at most as many as there are.
"""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, UncountableError, every_tensor, number, optional
from timeroof.work.cost import FREE, Cost, cost
from timeroof.work.families.indexing import DISTINCT, picked
from timeroof.work.registry import formula

_CONTENTS = "what a sparse tensor holds is not recorded"


def _pair(value: Arg | tuple[Tensor, ...]) -> tuple[Tensor, Tensor] | None:
    """Indices and values of a sparse argument; None where the argument is none."""
    if not isinstance(value, tuple) or len(value) != 2:
        return None
    indices, values = optional(value[0]), optional(value[1])
    if indices is None or values is None:
        raise UncountableError(_CONTENTS)
    return indices, values


def _pairs(call: Call) -> list[tuple[Tensor, Tensor]]:
    return [pair for value in call.inputs if (pair := _pair(value)) is not None]


def _dense(value: Arg, what: str) -> Tensor:
    found = optional(value)
    if found is None:
        raise UncountableError(f"{what} is not dense")
    return found


@formula("sparse::addmm", "sparse::addmv")
def addmm(bias: Arg, a: Arg, b: Arg, beta: Arg = 1, alpha: Arg = 1) -> Cost:
    """``beta·bias + alpha·(a @ b)``: every value of the sparse operand times a row of the other."""
    pair = _pair(a)
    if pair is None:
        raise UncountableError("the second operand is the sparse one")
    return _product(pair, _dense(b, "the other operand"), optional(bias), beta, alpha)


@formula("sparse::_sparse_addmm", "sparse::mm", "sparse::matmul", "sparse::mv", "sparse::bmm",
         "sparse::sparse_mm", "sparse::_sparse_mm", composite=True)  # fmt: skip
def product(call: Call) -> Cost:
    """A product that calls another for the work; a batch of them does its own."""
    operands = [v for v in call.inputs if isinstance(v, Tensor | tuple)]
    pairs = [pair for v in operands if (pair := _pair(v)) is not None]
    dense = [v for v in operands if isinstance(v, Tensor)]
    if len(pairs) != 1 or not dense:
        raise UncountableError("how many values of two sparse operands meet is not recorded")
    return _product(pairs[0], dense[-1], None, 0, 1)


def _product(
    pair: tuple[Tensor, Tensor], dense: Tensor, bias: Tensor | None, beta: Arg, alpha: Arg
) -> Cost:
    indices, values = pair
    width = dense.shape[-1] if len(dense.shape) > 1 else 1
    rows = picked(dense, values.count * width)
    result = Tensor(bias.shape, bias.dtype) if bias else picked(dense, values.count * width)
    adds = bias is not None and number(beta, 1) != 0
    other = result.count * (1 + (number(beta, 1) != 1)) if adds else 0
    other += values.count if number(alpha, 1) != 1 else 0
    reads = [indices, values, rows, *([bias] if adds and bias else [])]
    return cost(reads, [result], contraction=2 * values.count * width, other=other,
                dtype=dense.dtype, origin="modelled", notes=DISTINCT)  # fmt: skip


@formula("sparse::add", "sparse::sub", order="a b alpha out")
def add(call: Call, a: Arg, b: Arg, alpha: Arg = 1) -> Cost:
    """A sparse tensor added to a dense one touches only what it holds; two sparse ones are merged,
    and the result holds at most the values of both."""
    pairs = [pair for v in (a, b) if (pair := _pair(v)) is not None]
    flops = min(values.count for _, values in pairs) * (1 + (number(alpha, 1) != 1))
    dense = next((v for v in (a, b) if isinstance(v, Tensor)), None)
    reads = [t for pair in pairs for t in pair]
    if dense is None:
        made = _pair(call.outputs) if call.outputs else None
        kept = made or max(pairs, key=lambda pair: pair[1].count)
        return cost(reads, kept, other=flops, origin="modelled")
    hit = picked(dense, pairs[0][1].count)
    return cost([*reads, hit], [hit], other=flops, dtype=dense.dtype, origin="modelled",
                notes=DISTINCT)  # fmt: skip


@formula("sparse::_coalesce")
def coalesce(call: Call, x: Arg) -> Cost:
    """Values of the same place are added up; sorting the places is an op of its own."""
    pair = _pair(x)
    made = _pair(call.outputs) if call.outputs else None
    if pair is None:
        raise UncountableError(_CONTENTS)
    indices, values = pair
    kept = made or pair
    added = max(0, values.count - kept[1].count)
    return cost([indices, values], kept, other=added, dtype=values.dtype, origin="modelled")


@formula("sparse::_sparse_softmax", "sparse::_sparse_log_softmax")
def softmax(x: Arg) -> Cost:
    """Softmax over what is there: five operations a value."""
    pair = _pair(x)
    if pair is None:
        raise UncountableError(_CONTENTS)
    return cost(pair, [pair[1]], other=5 * pair[1].count, dtype=pair[1].dtype, origin="modelled")


@formula("sparse::mul", "sparse::div", "sparse::sparse_mask", "sparse::sum", "sparse::_sparse_sum",
         "sparse::to_dense", "sparse::_to_dense", "sparse::to_sparse", "sparse::_to_sparse",
         "sparse::clone", "sparse::copy", "sparse::copy_sparse_to_sparse", "sparse::t",
         "sparse::transpose", "sparse::neg", "sparse::pow", "sparse::sqrt", "sparse::abs",
         "sparse::relu", "sparse::sign", "sparse::index_select", "sparse::cat", "sparse::norm",
         "sparse::_embedding_bag_backward", "sparse::_embedding_bag_sparse_backward",
         "sparse::_to_copy", "sparse::zeros_like", "sparse::unsqueeze", "sparse::select",
         "sparse::isnan", "sparse::any", "sparse::masked_select",
         composite=True)  # fmt: skip
def by_values(call: Call) -> Cost:
    """Ops that have others do their work on the values: a pass over them where none was seen."""
    pairs = _pairs(call)
    reads = [t for pair in pairs for t in pair]
    reads += [t for value in call.inputs for t in every_tensor(value) if isinstance(value, Tensor)]
    return cost(reads, call.outputs or [values for _, values in pairs], origin="modelled",
                other=sum(values.count for _, values in pairs))  # fmt: skip


@formula("sparse::_nnz", "sparse::_indices", "sparse::_values", "sparse::indices",
         "sparse::values", "sparse::coalesce", "sparse::is_coalesced", "sparse::_coalesced",
         "sparse::sparse_dim", "sparse::dense_dim", "sparse::_dimI", "sparse::_dimV",
         "sparse::to", "sparse::embedding_backward", "sparse::detach", "sparse::alias",
         "sparse::empty", "sparse::empty_like",
         "sparse::sparse_coo_tensor", "sparse::_sparse_coo_tensor_unsafe",
         "sparse::_sparse_coo_tensor_with_dims", "sparse::result_type", "sparse::resize_as",
         "sparse::_sparse_coo_tensor_with_dims_and_tensors", "sparse::sparse_resize",
         "sparse::sparse_resize_and_clear", "sparse::embedding_sparse_backward",
         "sparse::_validate_sparse_coo_tensor_args", "sparse::zero", "sparse::size",
         "sparse::stride", "sparse::numel", "sparse::is_same_size",
         "sparse::requires_grad")  # fmt: skip
def looks(call: Call) -> Cost:
    """Questions, views and empty results: nothing is moved."""
    return FREE
