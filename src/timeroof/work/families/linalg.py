"""Dense linear algebra by the textbook counts of LAPACK (Golub and Van Loan).

With n the matrix's side: Cholesky n³/3, LU and determinant 2n³/3, inverse 2n³, QR of m×n
2n²(m − n/3), a triangular solve n² per right side, a solve LU and two of them. Eigenvalue
and singular-value decompositions iterate: only their reduction is counted (4n³/3 and
4mn²), a lower bound. They are no contractions in the sense of the report.
"""

from __future__ import annotations

from math import log2, prod

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import Cost, cost, other_in
from timeroof.work.registry import formula
from timeroof.work.shapes import axes

ITERATES = ("the iteration's length depends on the data: only the reduction is counted",)


def _matrices(value: Arg) -> tuple[Tensor, int, int, int]:
    """A batch of matrices: the tensor, how many, and their sides."""
    found = args.tensor(value, "the matrix")
    if len(found.shape) < 2:
        raise UncountableError("the matrix has fewer than two dimensions")
    return found, prod(found.shape[:-2]), found.shape[-2], found.shape[-1]


@formula("aten::linalg_cholesky_ex", "aten::cholesky", "aten::linalg_ldl_factor_ex")
def cholesky(a: Arg) -> Cost:
    """A = L·Lᵀ."""
    found, count, n, _ = _matrices(a)
    return cost([found], [found], other=count * n**3 / 3)


@formula(
    "aten::linalg_lu_factor_ex", "aten::linalg_lu", "aten::_linalg_det", "aten::_linalg_slogdet"
)
def lu(a: Arg) -> Cost:
    """A = P·L·U of m×n."""
    found, count, m, n = _matrices(a)
    small = min(m, n)
    return cost([found], [found], other=count * small**2 * (max(m, n) - small / 3))


@formula("aten::linalg_inv_ex", "aten::linalg_pinv", "aten::cholesky_inverse")
def inverse(a: Arg) -> Cost:
    """The inverse."""
    found, count, n, _ = _matrices(a)
    return cost([found], [found], other=count * 2 * n**3)


@formula("aten::linalg_qr", "aten::geqrf", "aten::linalg_householder_product")
def qr(a: Arg) -> Cost:
    """A = Q·R of m×n by Householder reflections."""
    found, count, m, n = _matrices(a)
    small, large = min(m, n), max(m, n)
    return cost([found], [found], other=count * 2 * small**2 * (large - small / 3))


def _solve(matrix: Arg, right: Arg, factor: bool, triangles: int) -> Cost:
    found, count, n, _ = _matrices(matrix)
    sides = args.tensor(right, "the right side")
    flops = triangles * n * sides.count + (count * 2 * n**3 / 3 if factor else 0)
    return cost([found, sides], [sides], other=flops)


@formula("aten::linalg_solve_triangular")
def solve_triangular(a: Arg, b: Arg) -> Cost:
    """One triangular system per right side."""
    return _solve(a, b, False, 1)


@formula("aten::triangular_solve")
def old_triangular_solve(b: Arg, a: Arg) -> Cost:
    """The older op: the right side comes first."""
    return _solve(a, b, False, 1)


@formula("aten::linalg_lu_solve")
def lu_solve(lu_: Arg, pivots: Arg, b: Arg) -> Cost:
    """Two triangular systems per right side."""
    return _solve(lu_, b, False, 2)


@formula("aten::cholesky_solve")
def cholesky_solve(b: Arg, a: Arg) -> Cost:
    """Two triangular systems per right side."""
    return _solve(a, b, False, 2)


@formula("aten::_linalg_solve_ex")
def solve(a: Arg, b: Arg) -> Cost:
    """Factor, then two triangular systems per right side."""
    return _solve(a, b, True, 2)


@formula("aten::_linalg_eigh")
def eigh(a: Arg) -> Cost:
    """Eigenvalues of symmetric matrices."""
    found, count, n, _ = _matrices(a)
    return cost([found], [found], other=count * 4 * n**3 / 3, origin="modelled", notes=ITERATES)


@formula("aten::_linalg_svd")
def svd(a: Arg) -> Cost:
    """Singular values of m×n."""
    found, count, m, n = _matrices(a)
    small, large = min(m, n), max(m, n)
    flops = count * 4 * large * small**2
    return cost([found], [found], other=flops, origin="modelled", notes=ITERATES)


@formula("aten::linalg_cross", "aten::cross")
def cross(call: Call, a: Arg, second: Tensor) -> Cost:
    """The cross product: 2 products and a difference per element."""
    x = args.ranked(a, "the first", 1, 2, 3, 4)
    out = x if x.count >= second.count else second
    return cost([x, second], [Tensor(out.shape, x.dtype)], other=3 * out.count)


# Fourier transforms: 5·n·log2(n) real FLOPs per complex transform, half for real ones.

_COMPLEX_OF = {"fp16": "complex32", "fp32": "complex64", "fp64": "complex128"}


def _transform(x: Tensor, dims: Arg, out: Tensor, size: Tensor, share: float) -> Cost:
    """The FLOPs of transforming some dimensions of `size` elements, one after the other."""
    real = args.REAL_PART.get(x.dtype, x.dtype)
    places = axes(args.integers(dims, "the dimensions"), len(size.shape))
    flops = sum(share * size.count * log2(max(size.shape[d], 2)) for d in places)
    found = cost([x], [out])
    return type(found)(
        other=other_in(real, flops), bytes_read=found.bytes_read, bytes_written=found.bytes_written
    )


@formula("aten::_fft_c2c")
def c2c(x: Tensor, dim: Arg) -> Cost:
    """Complex to complex."""
    return _transform(x, dim, Tensor(x.shape, x.dtype), x, 5)


@formula("aten::_fft_r2c")
def r2c(x: Tensor, dim: Arg, normalization: Arg = 0, onesided: Arg = True) -> Cost:
    """Real to complex; one-sided results have half the last dimension plus one."""
    last = axes(args.integers(dim, "the dimensions"), len(x.shape))[-1]
    half = args.flag(onesided, "onesided", True)
    shape = tuple(n // 2 + 1 if half and i == last else n for i, n in enumerate(x.shape))
    out = Tensor(shape, _COMPLEX_OF.get(x.dtype, "complex64"))
    return _transform(x, dim, out, x, 2.5)


@formula("aten::_fft_c2r")
def c2r(x: Tensor, dim: Arg, normalization: Arg = 0, last_dim_size: Arg = None) -> Cost:
    """Complex to real."""
    last = axes(args.integers(dim, "the dimensions"), len(x.shape))[-1]
    size = last_dim_size if isinstance(last_dim_size, int) else 2 * (x.shape[last] - 1)
    shape = tuple(size if i == last else n for i, n in enumerate(x.shape))
    out = Tensor(shape, args.REAL_PART.get(x.dtype, "fp32"))
    return _transform(x, dim, out, out, 2.5)


@formula("aten::fft_fft", "aten::fft_ifft", "aten::fft_rfft", "aten::fft_irfft", "aten::fft_fft2",
         "aten::fft_ifft2", "aten::fft_rfft2", "aten::fft_irfft2", "aten::fft_fftn",
         "aten::fft_ifftn", "aten::fft_rfftn", "aten::fft_irfftn", "aten::stft", "aten::istft",
         composite=True)  # fmt: skip
def above(x: Tensor) -> Cost:
    """The ops that call the transforms above."""
    return cost([x], [x], other=2.5 * x.count * log2(max(x.shape[-1], 2)))
