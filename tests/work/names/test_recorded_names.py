"""Every kernel name in the recorded profiler files, weighted by the time it took."""

from __future__ import annotations

import time
from collections import defaultdict

import polars as pl
import pytest

from tests.recorded_data import needs_recorded_data
from tests.work.names.recorded import recorded_names
from timeroof.core.machine import PRECISIONS
from timeroof.work.names import name_facts_table, read_name
from timeroof.work.names.algorithms import CONTRACTIONS
from timeroof.work.names.facts import LONGEST_SHORT_NAME

pytestmark = needs_recorded_data

# Kernels that the name alone does not tell the precision (or unit) of, with the reason.
DOES_NOT_TELL = {
    "attn_fwd": "AOTriton names no type",
    "bwd_kernel_fuse": "AOTriton names no type",
    "kernel_gemm_0": "FlyDSL names no type",
    "flash_attn_func_kernel_0": "FlyDSL names no type",
    "kernel_unified_attention_2d": "vLLM's Triton kernel names no type",
    "kernel_unified_attention_3d": "vLLM's Triton kernel names no type",
    "dgrad_1x1_stride_2x2": "a helper of cuDNN without a type",
    "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_1x128x128_4x1x1_cga1x1x1_"
    "kernel0_0": "f16 stands for bf16 too: the recorded run was bf16",
    "unnamed>::gemm_naive_kernel(const float *, const float *, float *, int, int, int)": "own code",
    "unnamed>::gemm_vectorized_kernel(const float *, const float *, float *, int, int, int)": "own",
}


@pytest.fixture(scope="module")
def seconds() -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for times in recorded_names().values():
        for name, time_s in times.items():
            total[name] += time_s
    return total


def test_there_are_more_than_a_thousand_names(seconds: dict[str, float]) -> None:
    assert len(seconds) > 1300


def test_products_convolutions_and_attention_tell_precision_and_unit(
    seconds: dict[str, float],
) -> None:
    silent = {
        name
        for name in seconds
        if (facts := read_name(name)).algorithm in CONTRACTIONS
        and (facts.precision is None or facts.tensor_core is None)
    }
    assert silent == set(DOES_NOT_TELL)


@pytest.mark.parametrize(
    "word", ["gemm", "conv", "attn", "fmha", "flash", "cudnn", "Cijk", "nvjet"]
)
def test_no_name_with_such_a_word_goes_unread(seconds: dict[str, float], word: str) -> None:
    unread = [name for name in seconds if word in name and read_name(name).algorithm is None]
    assert unread == []


def test_99_9_percent_of_the_time_has_a_known_algorithm(seconds: dict[str, float]) -> None:
    known_s = sum(s for name, s in seconds.items() if read_name(name).algorithm)
    assert known_s >= 0.999 * sum(seconds.values())


def test_precisions_are_resources_and_short_names_are_short(seconds: dict[str, float]) -> None:
    for name in seconds:
        facts = read_name(name)
        assert facts.precision is None or facts.precision in PRECISIONS
        assert 0 < len(facts.short_name) <= LONGEST_SHORT_NAME
        assert facts.tensor_core is not True or facts.algorithm in CONTRACTIONS
        if facts.precision and facts.precision.endswith("-tensor"):
            assert facts.tensor_core is True


def test_the_table_is_quick_and_has_one_row_per_name(seconds: dict[str, float]) -> None:
    names = pl.Series("name", [*seconds, None] * 50, dtype=pl.String)
    begin = time.perf_counter()
    table = name_facts_table(names)
    assert time.perf_counter() - begin < 10.0
    assert table.height == len(seconds)
    assert table["name"].n_unique() == table.height
    joined = names.to_frame().join(table, on="name", how="left")
    assert joined.height == len(names)


def test_short_names_keep_different_algorithms_apart(seconds: dict[str, float]) -> None:
    """A short name may stand for many kernels, but not for different kinds of work."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for name in seconds:
        facts = read_name(name)
        kinds[facts.short_name].add(facts.algorithm or "unknown")
    mixed = {short for short, algorithms in kinds.items() if len(algorithms) > 1}
    assert mixed <= {"RowReduce<float>"}  # TensorFlow's reduction, once as part of a softmax
