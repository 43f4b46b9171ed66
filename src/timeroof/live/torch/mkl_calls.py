"""Which op made which call of MKL: by order, with the sizes of products as landmarks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from timeroof.live.torch.alignment import pairs
from timeroof.live.torch.calls import flat
from timeroof.live.torch.recording import Described, MklCall, TensorSeen
from timeroof.work import Call, Cost, Tensor, count
from timeroof.work.call import parse_dtype

# Batches of products (``bmm``) as calls of MKL: one line each, which tells no sizes.


# Where the two operands are.
_BATCHES = {"aten::bmm": 0, "aten::baddbmm": 1, "aten::baddbmm_": 1}
_ROUTINE = re.compile(r"(?:cblas_)?([sdcz])gemm\w*_batch\w*")
_MKL_BATCHES_FORMATS = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128"}
# Multiplications in one product of a batch below which torch uses loops of its own.
LEAST_PRODUCT = 400


def is_batch(routine: str) -> bool:
    """Whether a line is a whole batch of products.

    >>> is_batch("sgemm_batch"), is_batch("sgemm")
    (True, False)
    """
    return _ROUTINE.fullmatch(routine) is not None


def format_of(routine: str) -> str | None:
    """The number format of a batch's line.

    >>> format_of("dgemm_batch")
    'fp64'
    """
    found = _ROUTINE.fullmatch(routine)
    return _MKL_BATCHES_FORMATS[found[1]] if found else None


Operands = tuple[TensorSeen, TensorSeen]


def operands(op: Described, places: Mapping[str, int]) -> Operands | None:
    """The two operands of a product; None of another op, or where they were not seen."""
    place = places.get(op.name.removesuffix(".out"))
    tensors = flat(op.inputs)
    if place is None or len(tensors) < place + 2:
        return None
    first, second = tensors[place : place + 2]
    if not isinstance(first, TensorSeen) or not isinstance(second, TensorSeen):
        return None
    return first, second


def batch_of(op: Described) -> Operands | None:
    """The operands of a batch of products; None of another op."""
    found = operands(op, _BATCHES)
    return found if found and all(len(t.shape) == 3 for t in found) else None


def batched_format(op: Described) -> str | None:
    """The format of the one line that an op writes for all of its products; None where none.

    torch hands a batch to MKL as a whole if its products are not tiny and each matrix has
    rows or columns in one piece. A batch of one is a plain product; all else is done matrix
    by matrix, or by torch itself.
    """
    found = batch_of(op)
    if found is None:
        return None
    first, second = found
    batch, rows, inner = first.shape
    columns = second.shape[2]
    if batch < 2 or rows * inner * columns < LEAST_PRODUCT:
        return None
    results = [t for t in flat(op.outputs) if isinstance(t, TensorSeen)]
    if not all(map(_in_pieces, found)) or not all(map(_is_contiguous, results[:1])):
        return None
    dtype = parse_dtype(first.dtype)
    return dtype if dtype in _MKL_BATCHES_FORMATS.values() else None


def _in_pieces(tensor: TensorSeen) -> bool:
    """Whether every matrix of a batch has its rows, or its columns, in one piece."""
    if len(tensor.strides) != len(tensor.shape):
        return True
    (_, rows, columns), (_, down, along) = tensor.shape, tensor.strides
    return (along == 1 and down >= columns) or (down == 1 and along >= rows)


def _is_contiguous(tensor: TensorSeen) -> bool:
    if len(tensor.strides) != len(tensor.shape):
        return True
    step = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def in_order(lines: Sequence[int], ops: Sequence[int]) -> dict[int, int]:
    """Lines of a format to the ops of the same, one each; none where their numbers differ.

    >>> in_order([3, 8], [10, 12]), in_order([3, 8], [10])
    ({3: 10, 8: 12}, {})
    """
    return dict(zip(lines, ops, strict=True)) if len(lines) == len(ops) else {}


# Ops that are one product: where their two operands are.
_PRODUCTS = {
    "aten::mm": 0, "aten::mv": 0, "aten::dot": 0, "aten::addmm": 1, "aten::addmv": 1,
    "aten::addmm_": 1, "aten::_addmm_activation": 1,
}  # fmt: skip
# Products by name, after the letter of their format; what is neither this nor an FFT solves.
_BLAS = re.compile(
    r"(?:cblas_)?[sdczh]?(?:gem[mv]\w*|(?:sd)?dot[cu]?\w*|ger[cu]?|(?:sy|he)(?:mm|mv|rk|r2k)"
    r"|tr(?:mm|mv)\w*|axpby|axpy\w*|scal|copy)"
)
# Ops that factorise and solve; they leave products to ops of their own.
_SOLVES = re.compile(
    r"linalg|cholesky|triangular|svd|(?<![a-z])(?:lu|qr|ormqr|orgqr|geqrf|lstsq|solve)(?![a-z])"
)
# Routines that only some of these ops call.
_HOMES = [
    (re.compile(f"[sdcz](?:{routines})"), re.compile(ops))
    for routines, ops in (
        ("gesdd|gesvd\\w*", "svd"),
        ("geqrf|orgqr|ungqr|ormqr|unmqr", "qr|householder|lstsq"),
        ("getrf|getri|getrs", "(?<![a-z])lu(?![a-z])"),
        ("potrf|potrs|potri", "cholesky"),
        ("(?:sy|he)evd?", "eigh"),
        ("geev", "eig(?!h)"),
        ("gels\\w*", "lstsq"),
        ("(?:sy|he)tr[fs]\\w*", "ldl"),
        ("tr(?:sm|sv)\\w*|trtrs", "triangular"),
    )
]
# Ops that transform themselves: `aten::fft_fft` only calls one.
_TRANSFORM = "aten::_fft_"
_FORMATS = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128"}
NOBODY = -1
# The formula of an op may count a little less than the library does (rows of padding).
ROUNDING = 1.01


@dataclass(frozen=True)
class Caller:
    """An op that may call MKL: its event, its own time, its op, and its products where counted."""

    event: int
    self_ns: float
    op: Described
    flops: float | None = None
    # When it ended: lines come in that order, from whatever thread.
    end_ns: int = 0


def callers_of(calls: Sequence[MklCall], callers: Sequence[Caller]) -> list[int]:
    """The event behind every call, or NOBODY.

    A product and a call of the same sizes are the same one, in order. Calls between two such
    pairs belong to the ops between them that make many (attention, a convolution image by
    image), as many as do the op's products; where these are not known, as its time allows.
    Lines of whole batches tell no sizes: there must be as many as ops that write one. FFTs go
    to ops that transform and LAPACK to ops that solve, or to nobody.
    """
    ours = [_product_key(c.op) or f"many {i}" for i, c in enumerate(callers)]
    theirs = [_call_key(call) for call in calls]
    anchors = _rising(pairs(ours, theirs))
    found = [NOBODY] * len(calls)
    for mine, other in anchors:
        found[other] = callers[mine].event
    edges = [(-1, -1), *anchors, (len(callers), len(calls))]
    batched = [batched_format(c.op) for c in callers]
    _deal_batches(found, calls, callers, batched, edges)
    for (left, first), (right, last) in pairwise(edges):
        between = [
            callers[i]
            for i in range(left + 1, right)
            if batched[i] is None and _product_key(callers[i].op) is None
        ]
        places = [p for p in range(first + 1, last) if not _is_dealt(calls[p], batched)]
        _deal(found, calls, places, between)
    return found


def _is_dealt(call: MklCall, batched: Sequence[str | None]) -> bool:
    """Whether a line is a batch's, and there are ops that write such lines."""
    return is_batch(call.routine) and format_of(call.routine) in batched


def _deal_batches(
    found: list[int], calls: Sequence[MklCall], callers: Sequence[Caller],
    batched: Sequence[str | None], edges: Sequence[tuple[int, int]],
) -> None:  # fmt: skip
    """One line to one op, in the order of ends: of the whole step, else between landmarks."""
    whole = [(edges[0], edges[-1])]
    for dtype in dict.fromkeys(d for d in batched if d is not None):
        lines = [p for p, call in enumerate(calls) if format_of(call.routine) == dtype]
        ops = [i for i, of in enumerate(batched) if of == dtype]
        for (left, first), (right, last) in whole if len(lines) == len(ops) else pairwise(edges):
            here = sorted((i for i in ops if left < i < right), key=lambda i: callers[i].end_ns)
            dealt = in_order([p for p in lines if first < p < last], here)
            for place, at in dealt.items():
                found[place] = callers[at].event


def _deal(
    found: list[int], calls: Sequence[MklCall], places: Sequence[int], callers: Sequence[Caller]
) -> None:
    """FFTs to the ops that transform, everything else to the others."""
    for transforms in (True, False):
        _deal_in_order(
            found,
            calls,
            [p for p in places if is_transform(calls[p].routine) is transforms],
            [c for c in callers if c.op.name.startswith(_TRANSFORM) is transforms],
        )


def _deal_in_order(
    found: list[int], calls: Sequence[MklCall], places: Sequence[int], callers: Sequence[Caller]
) -> None:
    """Calls in order to ops in order: an op takes calls until it has all its work."""
    at, taken = 0, 0.0
    for place in places:
        call = calls[place]
        able = _next_able(callers, at, call.routine)
        if able is None:
            continue
        while able is not None:
            if able != at:
                at, taken = able, 0.0
            fits = _fits(call, callers[at], taken)
            able = None if fits else _next_able(callers, at + 1, call.routine)
        found[place] = callers[at].event
        taken += _size(call, callers[at])


def _fits(call: MklCall, caller: Caller, taken: float) -> bool:
    """Whether an op has room for a call; one that has all its products makes none of any size."""
    if caller.flops and taken * ROUNDING >= caller.flops:
        return False
    return taken + _size(call, caller) <= _room(caller)


def _next_able(callers: Sequence[Caller], first: int, routine: str) -> int | None:
    """The first op from a place on that may be behind a line."""
    rest = range(first, len(callers))
    return next((i for i in rest if may_call(callers[i].op, routine)), None)


def is_transform(routine: str) -> bool:
    """Whether a line is an FFT's.

    >>> is_transform("fft"), is_transform("dgesdd")
    (True, False)
    """
    return routine.startswith("fft")


def may_call(op: Described, routine: str) -> bool:
    """Whether an op may be behind a line: each kind of routine has its own kind of op."""
    if is_transform(routine) or op.name.startswith(_TRANSFORM):
        return is_transform(routine) and op.name.startswith(_TRANSFORM)
    if _BLAS.fullmatch(routine) is not None:
        return _SOLVES.search(op.name) is None
    home = next((ops for routines, ops in _HOMES if routines.fullmatch(routine)), _SOLVES)
    return home.search(op.name) is not None


def _size(call: MklCall, caller: Caller) -> float:
    """What a call takes of an op's room: FLOPs, or nanoseconds where the op's are not known."""
    if not caller.flops:
        return float(call.duration_ns)
    cost = mkl_cost(call.routine, call.sizes)
    return (cost.contraction_flops or 0.0) if cost is not None else 0.0


def _room(caller: Caller) -> float:
    return caller.flops * ROUNDING if caller.flops else caller.self_ns


def _rising(matched: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs in order on both sides; what would cross is left out."""
    kept: list[tuple[int, int]] = []
    for pair in sorted(matched):
        if not kept or pair[1] > kept[-1][1]:
            kept.append(pair)
    return kept


def _product_key(op: Described) -> str | None:
    batch = batch_of(op)
    if batch is not None:
        (size, rows, inner), columns = batch[0].shape, batch[1].shape[2]
        return _key((rows, columns, inner)) if size == 1 else None
    product = operands(op, _PRODUCTS)
    if product is None:
        return None
    first, second = product
    rows = first.shape[0] if len(first.shape) > 1 else 1
    columns = second.shape[-1] if len(second.shape) > 1 else 1
    return _key((rows, columns, first.shape[-1] if first.shape else 1))


def _call_key(call: MklCall) -> str:
    """A product by its sizes; a factorisation or a batch of the same sizes is no product."""
    if not call.sizes or is_batch(call.routine) or _BLAS.fullmatch(call.routine) is None:
        return call.routine
    return _key((*call.sizes, 1, 1)[:3])


def _key(sizes: Sequence[int]) -> str:
    """MKL may see a product transposed: sizes in rising order."""
    return "x".join(map(str, sorted(sizes)))


def mkl_cost(routine: str, sizes: Sequence[int]) -> Cost | None:
    """The cost of one call; None where its sizes are not in its line.

    >>> mkl_cost("sgemm", (128, 32, 64)).contraction
    {'fp32': 524288.0}
    """
    dtype = _FORMATS.get(routine[:1])
    if dtype is None or "gem" not in routine or is_batch(routine) or len(sizes) < 2:
        return None
    m, n, k = (*sizes, 1)[:3] if "gemm" in routine else (sizes[0], 1, sizes[1])
    return count(Call("aten::mm", (Tensor((m, k), dtype), Tensor((k, n), dtype))))
