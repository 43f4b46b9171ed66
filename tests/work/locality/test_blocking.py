"""Estimates of tiled kernels: known limits, floors and directions."""

from __future__ import annotations

from math import inf, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeroof.work.locality import (
    Convolution,
    Product,
    estimate_convolution_bytes,
    estimate_gemm_bytes,
)

SIDES = st.integers(1, 5000)
PRODUCTS = st.builds(
    Product, SIDES, SIDES, SIDES, st.integers(1, 4), *[st.sampled_from([1.0, 2.0, 4.0])] * 3
)


def test_a_large_square_product_moves_2mnk_over_the_root_of_the_cache() -> None:
    n, elements = 8192, 65536
    estimate = estimate_gemm_bytes(Product(n, n, n), 4 * elements)
    assert estimate == pytest.approx(4 * (2 * n**3 / sqrt(elements) + n * n))


def test_what_fits_is_moved_once() -> None:
    product = Product(100, 100, 100)
    assert estimate_gemm_bytes(product, product.compulsory_bytes) == product.compulsory_bytes
    assert estimate_gemm_bytes(product, inf) == product.compulsory_bytes


def test_a_matrix_times_a_vector_is_moved_once_with_any_reasonable_cache() -> None:
    gemv = Product(m=4096, n=1, k=4096)
    assert estimate_gemm_bytes(gemv, 32768) <= 1.1 * gemv.compulsory_bytes


@settings(max_examples=300, deadline=None)
@given(PRODUCTS, st.floats(16, 1e9), st.floats(1, 8))
def test_never_below_compulsory_and_a_larger_cache_never_moves_more(
    product: Product, cache_bytes: float, times: float
) -> None:
    estimate = estimate_gemm_bytes(product, cache_bytes)
    assert estimate >= product.compulsory_bytes * (1 - 1e-12)
    assert estimate_gemm_bytes(product, cache_bytes * times) <= estimate * (1 + 1e-9)
    assert estimate < inf


@settings(max_examples=100, deadline=None)
@given(PRODUCTS)
def test_without_a_cache_it_is_finite(product: Product) -> None:
    assert product.compulsory_bytes <= estimate_gemm_bytes(product, 0) < inf


def test_empty_products_move_nothing_extra() -> None:
    assert estimate_gemm_bytes(Product(0, 10, 10), 100) == 400.0


# The paper's base convolution: batch 16, 112x112x64, 3x3, 64 filters, stride 2, no padding, FP16.
BASE = Convolution(
    batch=16,
    channels=64,
    filters=64,
    input_positions=112 * 112,
    output_positions=55 * 55,
    kernel_positions=9,
    input_bytes=2.0,
    weight_bytes=2.0,
    output_bytes=2.0,
)


def test_a_convolution_reads_overlapping_windows_once_when_they_fit() -> None:
    whole = estimate_convolution_bytes(BASE, 1e9)
    compulsory = 2 * (16 * 64 * 112 * 112 + 64 * 64 * 9 + 16 * 64 * 55 * 55)
    assert whole == pytest.approx(compulsory)


def test_a_convolution_in_a_small_cache_moves_less_than_its_product_without_overlap() -> None:
    windows = Product(16 * 55 * 55, 64, 64 * 9, 1, 2.0, 2.0, 2.0)
    assert estimate_convolution_bytes(BASE, 98304) < estimate_gemm_bytes(windows, 98304)


def test_groups_are_products_of_their_own() -> None:
    grouped = Convolution(1, 64, 64, 784, 784, 9, groups=64)
    product = grouped.product()
    assert (product.n, product.k, product.count) == (1, 9, 64)
    assert estimate_convolution_bytes(grouped, 1e9) == pytest.approx(4 * 64 * (784 + 9 + 784))
