"""Products of HLO: `dot` and `convolution` in every form, and custom calls that are products.

A convolution counts the products of real data: taps that fall into padding or into the holes
of a dilated input are nobody's work. So either gradient has as many as the forward pass, however
XLA writes it (as a window-dilated, base-dilated or batch-grouped convolution).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isqrt, log2, prod
from typing import NamedTuple

from timeroof.work import hlo as ops
from timeroof.work.call import UncountableError
from timeroof.work.cost import Cost, contraction_in, other_in
from timeroof.work.hlo.proto import ConvNumbers, Instruction, Shape, WindowDim
from timeroof.work.shapes import real_taps
from timeroof.work.traced import is_traced, real, size as named_size


def dot_flops(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """2 per element of the result and of the contracted dimensions."""
    if len(operands) < 2 or instruction.dot is None:
        raise UncountableError("a dot without its operands")
    inner = _sizes(operands[0], instruction.dot.lhs_contracted)
    return real(2 * instruction.shape.count * inner)


def ragged_dot_flops(operands: Sequence[Shape]) -> float:
    """Every row of the left operand meets the matrix of its own group."""
    if len(operands) < 2 or len(operands[0].dims) != 2 or len(operands[1].dims) != 3:
        raise UncountableError("a ragged dot of other than rows and one matrix per group")
    return 2.0 * operands[0].count * operands[1].dims[2]


def _sizes(shape: Shape, dims: Sequence[int]) -> int:
    if any(not 0 <= d < len(shape.dims) for d in dims):
        raise UncountableError("a dimension that is not there")
    return prod(shape.dims[d] for d in dims)


def convolution_flops(instruction: Instruction, x: Shape, kernel: Shape, out: Shape) -> float:
    """2 per pair of a real input element and a kernel element that some result needs."""
    numbers, window = instruction.conv, instruction.window
    if numbers is None or len(window) != len(numbers.out_spatial):
        raise UncountableError("a convolution without its dimensions")
    taps = prod(_taps(x, out, numbers, place, dim) for place, dim in enumerate(window))
    channels = _sizes(kernel, [numbers.kernel_in])  # those of one group
    filters = _sizes(out, [numbers.out_feature])
    batch = _sizes(x, [numbers.in_batch]) // instruction.batch_groups
    return real(2 * taps * batch * filters * channels)


def _taps(x: Shape, out: Shape, numbers: ConvNumbers, place: int, dim: WindowDim) -> int:
    size = _sizes(x, [numbers.in_spatial[place]])
    windows = _sizes(out, [numbers.out_spatial[place]])
    found = real_taps(
        int(size), int(windows), dim.size, dim.stride, dim.low, dim.dilation, dim.base
    )
    # Pairs of a window and a tap inside the input: a size of its own in a formula.
    return named_size(f"taps{place}", found) if is_traced(size) else found


def custom_flops(instruction: Instruction, operands: Sequence[Shape]) -> float | None:
    """FLOPs of a custom call that is a product, by its target; None where nobody knows them."""
    target = instruction.target.lower()
    for words, count in _TARGETS:
        if any(word in target for word in words):
            return count(instruction, operands)
    return None


def result_of(instruction: Instruction) -> Shape:
    """The first array of an instruction's result."""
    shape = instruction.shape
    while shape.parts:
        shape = shape.parts[0]
    return shape


def _library_convolution(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """cuDNN's and MIOpen's: window and dimensions are always those of the forward pass."""
    out, target = result_of(instruction), instruction.target.lower()
    x, kernel = operands[0], operands[1]
    if "backwardinput" in target:
        x, kernel, out = out, operands[1], operands[0]
    elif "backwardfilter" in target:
        x, kernel, out = operands[0], out, operands[1]
    return convolution_flops(instruction, x, kernel, out)


def _library_product(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """cuBLAS, Triton and oneDNN: the backend's settings say which dimensions are contracted."""
    said = instruction.settings
    for key in ("gemm_backend_config", "onednn_matmul_config", "triton_gemm_config"):
        inner = said.get(key)
        said = inner if isinstance(inner, dict) else said
    numbers = said.get("dot_dimension_numbers")
    listed = numbers.get("lhs_contracting_dimensions") if isinstance(numbers, dict) else None
    out = result_of(instruction).count
    if isinstance(listed, list) and all(str(d).isdecimal() for d in listed):
        return real(2 * out * _sizes(operands[0], [int(d) for d in listed]))
    # No settings: of one product, m·k times k·n over m·n is k².
    inner_squared, rest = divmod(operands[0].count * operands[1].count, max(out, 1))
    inner_size = isqrt(inner_squared)
    if rest or inner_size**2 != inner_squared:
        raise UncountableError("a product whose contracted dimensions are not recorded")
    return 2.0 * out * inner_size


class _Attention(NamedTuple):
    """Sizes of fused attention; depths of queries and of values may differ."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    causal: bool = False

    def flops(self, backward: bool) -> float:
        """Two products forward; five backward, which computes the scores again."""
        pairs = self.queries * self.keys
        if self.causal and self.queries <= self.keys:
            pairs -= self.queries * (self.queries - 1) // 2
        wide = 3 * self.depth + 2 * self.value_depth if backward else self.depth + self.value_depth
        return real(2 * self.batch * self.heads * pairs * wide)

    def named(self) -> _Attention:
        """The same with sizes that carry names."""
        sizes = self._asdict()
        causal = sizes.pop("causal")
        return _Attention(**{n: named_size(n, int(v)) for n, v in sizes.items()}, causal=causal)


_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(-?\d+)")
# TransformerEngine's masks that keep what lies before: causal, with padding, from the bottom.
_CAUSAL_MASKS = (2, 3, 4, 5)


def _attention(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """Fused attention of cuDNN and TransformerEngine, and of flash attention's custom calls."""
    target = instruction.target.lower()
    sizes = _by_attributes(instruction) or _by_scores(instruction, operands) or _by_shapes(operands)
    if any(is_traced(d) for o in operands for d in o.dims):
        sizes = sizes.named()
    return sizes.flops("backward" in target or "bwd" in target)


def _by_attributes(instruction: Instruction) -> _Attention | None:
    """TransformerEngine's own words for the sizes."""
    said = {name: int(value) for name, value in _ATTRIBUTE.findall(instruction.config)}
    names = ("input_batch", "attn_heads", "q_max_seqlen", "kv_max_seqlen")
    depth = said.get("qk_head_dim", said.get("head_dim"))
    if depth is None or any(name not in said for name in names):
        return None
    batch, heads, queries, keys = (said[name] for name in names)
    causal = said.get("mask_type") in _CAUSAL_MASKS
    return _Attention(batch, heads, queries, keys, depth, said.get("v_head_dim", depth), causal)


def _by_scores(instruction: Instruction, operands: Sequence[Shape]) -> _Attention | None:
    """cuDNN's settings have the shape of the scores: batch, heads, queries, keys."""
    said = instruction.settings.get("cudnn_fmha_backend_config")
    scores = said.get("intermediate_tensor_shape") if isinstance(said, dict) else None
    listed = scores.get("dimensions") if isinstance(scores, dict) else None
    if not isinstance(said, dict) or not isinstance(listed, list) or len(listed) != 4:
        return None
    if not operands or not all(str(d).isdecimal() for d in listed):
        return None
    batch, heads, queries, keys = (int(d) for d in listed)
    depth, causal = operands[0].dims[-1], "CAUSAL" in str(said.get("mask_type"))
    return _Attention(batch, heads, queries, keys, depth, depth, causal)


def _by_shapes(operands: Sequence[Shape]) -> _Attention:
    """Queries are (batch, length, heads, depth), or one array (batch, length, 3, heads, depth) with
    keys and values; keys and values may be one array (batch, length, 2, heads, depth)."""
    wide = [o.dims for o in operands if len(o.dims) >= 4]
    if not wide:
        raise UncountableError("attention whose sizes are not recorded")
    query = wide[0]
    keys = wide[1][1] if len(wide) > 1 and len(query) == 4 else query[1]
    return _Attention(query[0], query[-2], query[1], keys, query[-1], query[-1])


def _sides(operands: Sequence[Shape]) -> tuple[int, int, int]:
    """How many matrices a factorisation has, and their longer and shorter side."""
    if not operands or len(operands[0].dims) < 2:
        raise UncountableError("a factorisation without its matrix")
    *batch, rows, columns = operands[0].dims
    return prod(batch), max(rows, columns), min(rows, columns)


def _cholesky(instruction: Instruction, operands: Sequence[Shape]) -> float:
    many, n, _ = _sides(operands)
    return many * n**3 / 3


def _lu(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """m n² − n³/3, which is 2/3 n³ of a square matrix (LAPACK's working note 41)."""
    many, m, n = _sides(operands)
    return many * (m * n**2 - n**3 / 3)


def _qr(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """2 m n² − 2/3 n³, of the factorisation and of forming the orthogonal matrix alike."""
    many, m, n = _sides(operands)
    return many * (2 * m * n**2 - 2 * n**3 / 3)


def _grouped_product(instruction: Instruction, operands: Sequence[Shape]) -> float:
    """Rows meet the matrix of their own group; other forms say nothing of their groups."""
    return ragged_dot_flops(operands)


def _triangular(instruction: Instruction, operands: Sequence[Shape]) -> float:
    return float(result_of(instruction).count * operands[0].dims[-1])


def _nothing(instruction: Instruction, operands: Sequence[Shape]) -> float:
    return 0.0


# Words of a target, in lower case, and what counts it; the first that fits decides. What calls
# back into Python, and kernels of the user's own (Triton, Mosaic, Pallas), nobody can count.
_TARGETS: tuple[tuple[tuple[str, ...], Callable[[Instruction, Sequence[Shape]], float]], ...] = (
    (("cudnn$conv", "miopen$conv", "onednn$conv"), _library_convolution),
    (("fmha", "fused_attn", "flash_attn", "flash_attention"), _attention),
    (("trsm", "triangular_solve", "triangularsolve"), _triangular),
    (("grouped_gemm", "groupedmatmul", "grouped_matmul", "ragged_dot"), _grouped_product),
    (("cublas$", "hipblaslt$", "matmul", "gemm"), _library_product),
    (("potrf", "cholesky"), _cholesky),
    (("getrf", "lu_decomposition"), _lu),
    (("geqrf", "householder", "orgqr", "ungqr"), _qr),
    (
        (
            "topk", "cub_sort", "deviceradixsort", "radix_sort", "threefry", "pivots",
            "sharding", "spmd", "fullto", "xla.sdy", "annotate_device_placement",
            "annotatedeviceplacement", "movetohost", "movetodevice", "pintohost", "pintodevice",
            "allocatebuffer", "createbuffer", "padtostatic", "slicetodynamic", "layoutconstraint",
            "nop",
        ),
        _nothing,
    ),
)  # fmt: skip
# FLOPs per element of the first operand of custom calls that are no products, as of torch's ops.
_PER_ELEMENT: tuple[tuple[tuple[str, ...], int], ...] = (
    (("softmax_backward", "softmaxbackward"), 4),
    (("softmax",), 5),
    (("norm_backward", "normbackward"), 13),
    (("rmsnorm",), 4),
    (("layernorm", "layer_norm", "norm_forward", "cudnn$norm"), 8),
)


def custom_elements(instruction: Instruction, operands: Sequence[Shape]) -> float | None:
    """FLOPs beside products of a custom call, by its target; None where nobody knows them."""
    target = instruction.target.lower()
    for words, each in _PER_ELEMENT:
        if operands and any(word in target for word in words):
            return float(each * operands[0].count)
    return None


# As in work.families.normalization.
_BATCH_NORM_FLOPS = 7

Operands = Sequence[Shape]


def flops_of(one: Instruction, operands: Operands, reducer: int) -> Cost:
    """The FLOPs of an instruction that is no fusion, as a cost without bytes.

    `reducer` are the FLOPs that the instruction's own computation does for one element.
    """
    if one.opcode in ops.FREE or one.opcode in ops.MOVES:
        return Cost()
    if one.opcode in _PRODUCTS:
        return _product(one, operands)
    if one.opcode in ops.ELEMENTWISE:
        of = operands[0] if one.opcode in ops.TRUTHS and operands else one.shape
        return Cost(other=other_in(of.format, ops.ELEMENTWISE[one.opcode] * one.shape.count))
    if one.opcode in _OTHERS:
        return Cost(other=other_in(operands[0].format, _OTHERS[one.opcode](one, operands, reducer)))
    return Cost(contraction=None, other=None, unknown=f"the instruction {one.opcode}")


def _product(one: Instruction, operands: Operands) -> Cost:
    flops = _PRODUCTS[one.opcode](one, operands)
    if flops is not None:
        return Cost(contraction=contraction_in(operands[0].format if operands else "fp32", flops))
    each = custom_elements(one, operands)
    if each is not None:
        return Cost(other=other_in(operands[0].format, each))
    return Cost(contraction=None, other=None, unknown=f"the custom call {one.target}")


def _convolution(one: Instruction, operands: Operands) -> float:
    if len(operands) < 2:
        raise UncountableError("a convolution without its operands")
    return convolution_flops(one, operands[0], operands[1], result_of(one))


_PRODUCTS: dict[str, Callable[[Instruction, Operands], float | None]] = {
    "dot": dot_flops,
    "scaled-dot": dot_flops,
    "ragged-dot": lambda _, operands: ragged_dot_flops(operands),
    "convolution": _convolution,
    "custom-call": custom_flops,
}


def _windows(one: Instruction) -> int:
    return prod(dim.size for dim in one.window)


def transform_flops(
    given: int, found: int, lengths: Sequence[int], is_complex: Sequence[bool]
) -> float:
    """5 n log2(n) per Fourier transform of n complex numbers, half of it where one side is real;
    as operations in the operand's format, of which complex numbers count two each."""
    numbers = max(given, found) * (1.0 if all(is_complex) else 0.5)
    return numbers * 5 * log2(max(prod(lengths), 2)) / (2 if is_complex[0] else 1)


def _fft(one: Instruction, operands: Operands, _: int) -> float:
    is_complex = [s.dtype.startswith("c") for s in (operands[0], one.shape)]
    return transform_flops(operands[0].count, one.shape.count, one.fft_length, is_complex)


_OTHERS: dict[str, Callable[[Instruction, Operands, int], float]] = {
    "reduce": lambda one, operands, each: float(operands[0].count * each),
    "reduce-window": lambda one, operands, each: float(result_of(one).count * _windows(one) * each),
    # A comparison per element of the window, and the addition of what is scattered.
    "select-and-scatter": lambda one, operands, _: float(operands[1].count * (_windows(one) + 1)),
    "scatter": lambda one, operands, each: float(operands[-1].count * each),
    "batch-norm-training": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "batch-norm-inference": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "batch-norm-grad": lambda one, operands, _: float(_BATCH_NORM_FLOPS * operands[0].count),
    "fft": _fft,
    "cholesky": lambda one, operands, _: one.shape.count * one.shape.dims[-1] / 3,
    "triangular-solve": lambda one, operands, _: float(one.shape.count * operands[0].dims[-1]),
}
