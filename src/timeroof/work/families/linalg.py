"""Dense linear algebra by the textbook counts of LAPACK (Golub and Van Loan).

With n the matrix's side: Cholesky n³/3, LU and determinant 2n³/3, inverse 2n³, QR of m×n
2n²(m − n/3), a triangular solve n² per right side, a solve LU and two of them. Eigenvalue
and singular-value decompositions iterate: only their reduction is counted (4n³/3 and
4mn²), a lower bound. They are no contractions in the sense of the report.
"""

from __future__ import annotations

from math import prod

from timeroof.work.call import Arg, Call, Tensor, UncountableError, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

ITERATES = ("the iteration's length depends on the data: only the reduction is counted",)


def _matrices(value: Arg) -> tuple[Tensor, int, int, int]:
    """A batch of matrices: the tensor, how many, and their sides."""
    found = tensor(value, "the matrix")
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
    sides = tensor(right, "the right side")
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
def cross(call: Call, a: Arg, b: Arg) -> Cost:
    """The cross product: 2 products and a difference per element."""
    x, y = ranked(a, "the first", 1, 2, 3, 4), tensor(b, "the second")
    out = x if x.count >= y.count else y
    return cost([x, y], [Tensor(out.shape, x.dtype)], other=3 * out.count)
