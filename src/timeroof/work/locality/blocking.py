"""Estimates of how often a tiled kernel reads its operands from below a cache of a given size.

A matrix product that keeps a tile in a cache of S elements moves about 2MNK/√S (Hong and Kung
1981; Irony, Toledo and Tiskin 2004). Estimates, smooth in all sizes, never below the compulsory
bytes: real kernels choose tiles for other reasons as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Product:
    """A matrix product (m×k)·(k×n) → m×n, `count` times, with bytes per element of each side.

    left_share: the part of the left operand's elements that are different ones; below 1 for the
    overlapping windows of a convolution.
    """

    m: float
    n: float
    k: float
    count: float = 1.0
    left_bytes: float = 4.0
    right_bytes: float = 4.0
    out_bytes: float = 4.0
    left_share: float = 1.0

    @property
    def compulsory_bytes(self) -> float:
        """Every operand once."""
        left, right, out = self.sides()
        return self.count * (left + right + out)

    def sides(self) -> tuple[float, float, float]:
        """Bytes of left operand, right operand and result of one product."""
        left = self.m * self.k * self.left_bytes * self.left_share
        return left, self.k * self.n * self.right_bytes, self.m * self.n * self.out_bytes


def estimate_gemm_bytes(product: Product, cache_bytes: float) -> float:
    """Likely traffic below a cache of a size: the best of three ways to keep a tile in it.

    >>> estimate_gemm_bytes(Product(1024, 1024, 1024), 16384) / (2 * 1024**3 / 64 * 4)
    1.03125
    """
    left, right, out = product.sides()
    if min(left, right, out) <= 0:
        return product.compulsory_bytes
    if left + right + out <= cache_bytes:
        return product.compulsory_bytes
    m, n, k = product.m, product.n, product.k
    # Keep a tile of one side; the other two stream past, each once per tile along the tile's edges.
    keep_out = out + _streamed(m, n, right, left, out, cache_bytes)
    keep_left = left + _streamed(m, k, right, 2 * out, left, cache_bytes)
    keep_right = right + _streamed(k, n, 2 * out, left, right, cache_bytes)
    best = min(keep_out, keep_left, keep_right)
    return product.count * max(best, left + right + out)


def _streamed(
    rows: float, columns: float, by_rows: float, by_columns: float, kept: float, cache: float
) -> float:
    """Bytes that stream past a kept rows×columns side cut into tiles that fit the cache.

    `by_rows` bytes are read once per row of tiles, `by_columns` once per column of tiles; the
    tile's shape is chosen so that their sum is least.
    """
    # A tile is at least one element, however small the cache.
    tiles = min(kept / cache, rows * columns) if cache > 0 else rows * columns
    if tiles <= 1:
        return by_rows + by_columns
    # least of by_rows·r + by_columns·c with r·c = tiles, 1 ≤ r ≤ rows, 1 ≤ c ≤ columns
    most = min(rows, tiles)
    least = max(1.0, tiles / columns)
    r = min(max(sqrt(tiles * by_columns / by_rows), least), max(most, least))
    c = min(max(tiles / r, 1.0), columns)
    return by_rows * min(r, rows) + by_columns * c


@dataclass(frozen=True)
class Convolution:
    """Sizes of a convolution: output positions per image are the product of its output sizes."""

    batch: int
    channels: int
    filters: int
    input_positions: int
    output_positions: int
    kernel_positions: int
    groups: int = 1
    input_bytes: float = 4.0
    weight_bytes: float = 4.0
    output_bytes: float = 4.0

    def product(self) -> Product:
        """The matrix product it amounts to: windows that overlap share their elements."""
        windows = self.output_positions * self.kernel_positions
        return Product(
            m=self.batch * self.output_positions,
            n=self.filters / self.groups,
            k=self.channels / self.groups * self.kernel_positions,
            count=self.groups,
            left_bytes=self.input_bytes,
            right_bytes=self.weight_bytes,
            out_bytes=self.output_bytes,
            left_share=min(1.0, self.input_positions / windows) if windows else 0.0,
        )


def estimate_convolution_bytes(convolution: Convolution, cache_bytes: float) -> float:
    """Likely traffic of a tiled direct or implicit-GEMM convolution below a cache of a size."""
    return estimate_gemm_bytes(convolution.product(), cache_bytes)


def estimate_level_bytes(lru_bytes: float, blocked_bytes: float, compulsory_bytes: float) -> float:
    """Likely traffic of one op at a level: what other ops left there, plus its own re-reading.

    >>> estimate_level_bytes(lru_bytes=60.0, blocked_bytes=150.0, compulsory_bytes=100.0)
    110.0
    """
    return lru_bytes + max(0.0, blocked_bytes - compulsory_bytes)
