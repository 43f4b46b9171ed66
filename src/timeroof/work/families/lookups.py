"""FBGEMM's lookups: many embedding tables in one tensor, rows picked and added up per bag.

There is an offset per table and sample. How wide each table is, is not recorded: the
width here is the mean over bags, so that results have the right size. Forward, every
element of a picked row is added once. Backward, it is added to the gradient of its row,
and where the optimizer is fused, every row that was picked is read, updated and written.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, optional, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.families.optimizer import ADAGRAD_FLOPS, ADAM_FLOPS, SGD_FLOPS
from timeroof.work.registry import formula

NOTES = ("all tables are taken as equally wide, and indices as all different",)
_NODE = "torch::autograd::CppNode<SplitLookupFunction_{}_Op>"


class Optimizer(msgspec.Struct, frozen=True):
    """A fused update: FLOPs per element and per row, and values of state per element and row."""

    flops: int
    state: int
    row_flops: int = 0
    row_state: int = 0


OPTIMIZERS = {
    "sgd": Optimizer(SGD_FLOPS, 0),
    "adagrad": Optimizer(ADAGRAD_FLOPS, 1),
    # Per element: square, add to the row's sum, scale, subtract; per row: mean, add, root, divide.
    "rowwise_adagrad": Optimizer(4, 0, row_flops=4, row_state=1),
    "adam": Optimizer(ADAM_FLOPS, 2),
}


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """One lookup with all its sizes."""

    table: Tensor
    width: float
    indices: Tensor
    offsets: Tensor
    per_index: Tensor | None

    @property
    def rows(self) -> Tensor:
        """What was picked, at most all that the tables hold."""
        return Tensor((min(round(self.indices.count * self.width), self.table.count),),
                      self.table.dtype)  # fmt: skip

    @property
    def row_count(self) -> int:
        """How many different rows were picked, at most."""
        return round(self.rows.count / self.width) if self.width else 0

    @property
    def pooled(self) -> Tensor:
        """The result: a row per bag."""
        return Tensor((round((self.offsets.count - 1) * self.width),), self.table.dtype)

    @property
    def sums(self) -> float:
        """Additions per picked element; a weight per index multiplies first."""
        return self.indices.count * self.width * (1 + (self.per_index is not None))


def _width(bags: int, tables: int, total: Arg, out: Tensor | None) -> float | None:
    if isinstance(total, int) and not isinstance(total, bool):
        return total / max(tables, 1)
    return out.count / bags if out is not None and bags > 0 else None


def split_lookup_of(op: str, values: tuple[Arg, ...], out: Tensor | None) -> Lookup:
    """The lookup of a call with a fused optimizer; row-wise moments tell the number of rows."""
    if len(values) < 13:
        raise UncountableError("the arguments of the lookup are not recorded")
    weights = [tensor(t, "the weights") for t in values[:3] if isinstance(t, Tensor) and t.count]
    if not weights:
        raise UncountableError("the weights are not recorded")
    tables = tensor(values[5], "the tables' offsets").count
    indices, offsets = tensor(values[11], "the indices"), tensor(values[12], "the offsets")
    table = Tensor((sum(t.count for t in weights),), weights[0].dtype)
    width = _width(offsets.count - 1, tables, values[7], out)
    moments = sum(t.count for t in values[20:22] if isinstance(t, Tensor))
    if width is None and "rowwise" in op and moments:
        width = table.count / moments
    if width is None:
        raise UncountableError("the tables' width is not recorded")
    weighted = optional(values[14]) if len(values) > 14 else None
    return Lookup(table=table, width=width, indices=indices, offsets=offsets, per_index=weighted)


def dense_lookup_of(values: tuple[Arg, ...], out: Tensor | None) -> Lookup:
    """The lookup of a call whose gradients are dense."""
    if len(values) < 9:
        raise UncountableError("the arguments of the lookup are not recorded")
    tables = tensor(values[1], "the tables' offsets").count
    indices, offsets = tensor(values[7], "the indices"), tensor(values[8], "the offsets")
    width = _width(offsets.count - 1, tables, values[3], out)
    if width is None:
        raise UncountableError("the tables' width is not recorded")
    weighted = optional(values[10]) if len(values) > 10 else None
    return Lookup(
        table=tensor(values[0], "the weights"), width=width, indices=indices, offsets=offsets,
        per_index=weighted,
    )  # fmt: skip


def forward_cost(found: Lookup) -> Cost:
    """Rows picked from all tables and added up per bag."""
    reads = [found.rows, found.indices, found.offsets, found.per_index]
    return cost(reads, [found.pooled], other=found.sums, dtype=found.table.dtype,
                origin="modelled", notes=NOTES)  # fmt: skip


def _result(call: Call) -> Tensor | None:
    return tensor(call.outputs[0], "the result") if call.outputs else None


@formula(*(f"fbgemm::split_embedding_codegen_lookup_{o}_function" for o in OPTIMIZERS))
def split_lookup(call: Call) -> Cost:
    """Tables in several memories, with a fused optimizer."""
    return forward_cost(split_lookup_of(call.op, call.inputs, _result(call)))


def kernel_lookup_of(values: tuple[Arg, ...]) -> Lookup:
    """The lookup of the op that launches the kernel: tables, their places, sizes, indices."""
    if len(values) < 10:
        raise UncountableError("the arguments of the lookup are not recorded")
    weights = [tensor(t, "the weights") for t in values[:2] if isinstance(t, Tensor) and t.count]
    if not weights:
        raise UncountableError("the weights are not recorded")
    tables, offsets = tensor(values[4], "the tables' offsets").count, tensor(values[9], "the bags")
    width = _width(offsets.count - 1, tables, values[6], None)
    if width is None:
        raise UncountableError("the tables' width is not recorded")
    table = Tensor((sum(t.count for t in weights),), weights[0].dtype)
    weighted = values[11] if len(values) > 11 else None
    per_index = weighted if isinstance(weighted, Tensor) else None
    indices = tensor(values[8], "the indices")
    if per_index is not None and per_index.count != indices.count:
        per_index = None
    return Lookup(table=table, width=width, indices=indices, offsets=offsets, per_index=per_index)


@formula("fbgemm::split_embedding_codegen_forward_unweighted_cuda",
         "fbgemm::split_embedding_codegen_forward_weighted_cuda",
         "fbgemm::split_embedding_codegen_forward_unweighted_v2_cuda",
         "fbgemm::split_embedding_codegen_forward_weighted_v2_cuda")  # fmt: skip
def kernel_lookup(call: Call) -> Cost:
    """The op below a lookup, in newer versions."""
    return forward_cost(kernel_lookup_of(call.inputs))


@formula("fbgemm::dense_embedding_codegen_lookup_function")
def dense_lookup(call: Call) -> Cost:
    """Tables whose gradients are dense."""
    return forward_cost(dense_lookup_of(call.inputs, _result(call)))


def _gradient(call: Call) -> tuple[Tensor, tuple[Arg, ...]]:
    """The gradient that reaches a node, and the arguments of its function behind it."""
    grad = tensor(call.inputs[0] if call.inputs else None, "the gradient")
    if len(call.inputs) < 2:
        raise UncountableError("the indices of the forward pass are not recorded here")
    return grad, call.inputs[1:]


@formula(*(_NODE.format(o) for o in OPTIMIZERS))
def update(call: Call) -> Cost:
    """Gradients of the picked rows, and the fused optimizer's update of them."""
    grad, values = _gradient(call)
    found = split_lookup_of(call.op, values, grad)
    kind = call.op.partition("LookupFunction_")[2].partition("_Op")[0]
    return _updated(grad, found, OPTIMIZERS[kind])


def _updated(grad: Tensor, found: Lookup, step: Optimizer) -> Cost:
    rows = found.rows
    state = Tensor((step.state * rows.count + step.row_state * found.row_count,), "fp32")
    flops = found.sums + step.flops * rows.count + step.row_flops * found.row_count
    reads = [grad, found.indices, found.offsets, found.per_index, rows, state]
    return cost(reads, [rows, state], other=flops, dtype=rows.dtype, origin="modelled", notes=NOTES)


_EXACT = "fbgemm::split_embedding_backward_codegen_{}_{}_exact_cuda"


def kernel_update_of(call: Call) -> tuple[Tensor, Lookup]:
    """The gradient and the lookup of the op that launches the update.

    Versions differ in the numbers between its tensors, not in the order of these.
    """
    given = [t for t in call.inputs if isinstance(t, Tensor)]
    if len(given) < 10:
        raise UncountableError("the arguments of the lookup are not recorded")
    grad, weights = tensor(given[0], "the gradient"), [t for t in given[1:3] if t.count]
    tables, indices, offsets = given[5].count, given[8], tensor(given[9], "the bags")
    if not weights or len(grad.shape) != 2 or not tables:
        raise UncountableError("the tables are not recorded")
    table = Tensor((sum(t.count for t in weights),), tensor(weights[0], "the weights").dtype)
    weighted = given[10] if len(given) > 10 and "_weighted_" in call.op else None
    return grad, Lookup(
        table=table, width=grad.shape[1] / tables, indices=tensor(indices, "the indices"),
        offsets=offsets, per_index=weighted,
    )  # fmt: skip


@formula(*(_EXACT.format(o, w) for o in OPTIMIZERS for w in ("unweighted", "weighted")))
def kernel_update(call: Call) -> Cost:
    """The op below a node, in newer versions."""
    grad, found = kernel_update_of(call)
    kind = call.op.removeprefix(_EXACT.partition("{}")[0]).rpartition("_exact_cuda")[0]
    return _updated(grad, found, OPTIMIZERS[kind.removesuffix("_weighted").removesuffix(
        "_unweighted")])  # fmt: skip


# What the update's kernels do before it: weights per index get their gradients, every index gets
# its row's number over all tables, then indices are sorted by it. How many of them share a row is
# data; so is what finds that out.

NUMBER_ROWS, SORT_PASS, COUNT_DIGITS, GRADE_WEIGHTS = (
    f"timeroof::lookup_{part}"
    for part in ("number_rows", "sort_pass", "count_digits", "grade_weights")
)
# CUB's names, its older ones, and rocPRIM's.
_PREPARES = (
    ("linearize_index", NUMBER_ROWS), ("grad_indice_weights", GRADE_WEIGHTS),
    ("RadixSortOnesweep", SORT_PASS), ("RadixSortDownsweep", SORT_PASS),
    ("onesweep_iteration", SORT_PASS), ("RadixSortHistogram", COUNT_DIGITS),
    ("RadixSortUpsweep", COUNT_DIGITS), ("onesweep_histograms", COUNT_DIGITS),
)  # fmt: skip


def prepares_update(op: str, kernel: str) -> str | None:
    """The part of a fused update that a kernel by its name does before it; None for others.

    >>> prepares_update("fbgemm::x", "void linearize_index_kernel<long>(int)")
    """
    return part_before_update(kernel) if updates_tables(op) else None


def updates_tables(op: str) -> bool:
    """Whether an op is the backward pass of a lookup, perhaps with a fused optimizer."""
    return "LookupFunction_" in op or op.startswith(_EXACT.partition("{}")[0])


def part_before_update(kernel: str) -> str | None:
    """The part that a kernel of an update does before it, by its name."""
    return next((part for word, part in _PREPARES if word in kernel), None)


def preparing(call: Call, part: str) -> Call | None:
    """The call of that part."""
    try:
        if call.op.startswith("fbgemm::"):
            grad, found = kernel_update_of(call)
        else:
            grad, values = _gradient(call)
            dense = "Dense" in call.op
            found = (
                dense_lookup_of(values, grad) if dense else split_lookup_of(call.op, values, grad)
            )
    except UncountableError:
        return None
    return Call(part, (found.indices, found.offsets, found.rows, grad))


@formula(NUMBER_ROWS)
def number_rows(indices: Tensor, offsets: Tensor) -> Cost:
    """The row's number over all tables, and where the index stands."""
    places = Tensor((indices.count,), "int32")
    return cost([indices, offsets], [indices, places], origin="inferred")


@formula(SORT_PASS)
def sort_pass(indices: Tensor) -> Cost:
    """One pass of a radix sort reads and writes every number and place."""
    places = Tensor((indices.count,), "int32")
    return cost([indices, places], [indices, places], origin="inferred")


@formula(GRADE_WEIGHTS)
def grade_weights(indices: Tensor, offsets: Tensor, rows: Tensor, grad: Tensor) -> Cost:
    """Per index the product of its row and its bag's gradient."""
    graded = Tensor((indices.count,), "fp32")
    return cost([grad, rows, indices, offsets], [graded], other=2 * rows.count, dtype=grad.dtype,
                origin="inferred", notes=NOTES)  # fmt: skip


@formula(COUNT_DIGITS)
def count_digits(indices: Tensor) -> Cost:
    """How often each digit stands: every number is read."""
    return cost([indices], [], origin="inferred")


@formula(_NODE.format("Dense"))
def dense_backward(call: Call) -> Cost:
    """A whole tensor of gradients, zero where no index points."""
    grad, values = _gradient(call)
    found = dense_lookup_of(values, grad)
    reads = [grad, found.indices, found.offsets, found.per_index]
    return cost(reads, [found.table], other=found.sums, dtype=grad.dtype,
                origin="modelled", notes=NOTES)  # fmt: skip


# FBGEMM's ops of recommenders beside the lookups: sparse features packed, sorted, checked.

_PERMUTE_NODE = (
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction"
    "<&fbgemm_gpu::permute_pooled_embs_gpu> >"
)


@formula("fbgemm::asynchronous_complete_cumsum", "fb::asynchronous_complete_cumsum",
         "fbgemm::asynchronous_exclusive_cumsum",
         "fbgemm::asynchronous_inclusive_cumsum")  # fmt: skip
def cumsum(lengths: Tensor) -> Cost:
    """A running sum of lengths: integers."""
    return cost([lengths], [Tensor((lengths.count + 1,), lengths.dtype)])


@formula("fbgemm::bounds_check_indices")
def bounds_check(rows: Arg, indices: Arg, offsets: Arg) -> Cost:
    """Every index and offset read and compared."""
    return cost([tensor(t, "the indices") for t in (rows, indices, offsets)], [])


@formula("fbgemm::permute_2D_sparse_data", "fbgemm::permute_1D_sparse_data",
         "fbgemm::permute_sparse_features", "fbgemm::permute_sparse_data")  # fmt: skip
def permute_sparse(permute: Arg, lengths: Arg, values: Arg, weights: Arg = None) -> Cost:
    """Lengths and values in another order of features."""
    order, sizes, found = (tensor(t, "an input") for t in (permute, lengths, values))
    extra = tensor(weights, "the weights") if isinstance(weights, Tensor) else None
    return cost([order, sizes, found, extra], [sizes, found, extra])


@formula("fbgemm::permute_pooled_embs_auto_grad", "fbgemm::permute_pooled_embs",
         "fbgemm::recat_embedding_grad_output_mixed_D_batch",
         "fbgemm::recat_embedding_grad_output_mixed_D",
         _PERMUTE_NODE,
         "fb::offsets_range")  # fmt: skip
def rearranged(x: Tensor) -> Cost:
    """The same elements in another order."""
    return cost([x], [Tensor(x.shape, x.dtype)])


@formula("fbgemm::dense_to_jagged", "fbgemm::jagged_to_padded_dense")
def jagged(call: Call, x: Arg) -> Cost:
    """Between padded and packed rows; the packed side is what must move."""
    found = ranked(x, "the input", 1, 2, 3)
    return cost([found], [found], origin="modelled")
