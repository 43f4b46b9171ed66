"""Paths of the tensor cores and packed instructions: nothing is counted twice or left out unsaid."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.read.test_ncu import Row, base, write_long
from timeroof.core.profile import Profile
from timeroof.read.load import read_files
from timeroof.read.nvidia.ncu_metrics import TensorPath, apart, is_whole, path_of

PATH = "sm__ops_path_tensor_"


def read(tmp_path: Path, capability: str, metrics: dict[str, object]) -> Profile:
    rows: list[Row] = [(0, "k", m, "", v) for m, v in metrics.items()]
    return read_files([write_long(tmp_path / "x", [*base(), *rows], capability)])


def tensor(profile: Profile) -> dict[str, float | None]:
    row = profile.kernels.to_dicts()[0]
    return {c.removeprefix("flop/"): v for c, v in row.items() if c.endswith("-tensor")}


def paths(metrics: dict[str, object]) -> dict[str, object]:
    return {f"{PATH}{name}.sum": v for name, v in metrics.items()}


def test_the_path_that_fp8_shares_counts_as_fp8(tmp_path: Path) -> None:
    shared = {"src_fp4_fp6_fp8_dst_fp16": 3, "src_fp4_fp6_fp8_dst_fp32": 40, "src_fp4_dst_fp32": 7}
    profile = read(tmp_path, "10.0", paths(shared))
    assert tensor(profile) == {"fp8-tensor": 43.0, "fp4-tensor": 7.0}


def test_a_path_of_fp8_alone_is_not_added_to_the_shared_one(tmp_path: Path) -> None:
    profile = read(tmp_path, "10.0", paths({"src_fp4_fp6_fp8_dst_fp32": 40, "src_fp8": 40}))
    assert tensor(profile) == {"fp8-tensor": 40.0}


def test_narrow_paths_are_parts_of_wide_ones(tmp_path: Path) -> None:
    """What `--metrics regex:sm__ops_path_tensor_.*` collects."""
    told = {
        "src_fp16": 100,
        "src_fp16_dst_fp16": 40,
        "src_fp16_dst_fp32": 60,
        "src_fp16_dst_fp32_sparsity_off": 60,
        "op_hmma_src_fp16_dst_fp32_sparsity_off": 10,
        "op_hgmma_src_fp16_sparsity_off": 90,
    }
    assert tensor(read(tmp_path, "9.0", paths(told))) == {"fp16-tensor": 100.0}


OLD = {"op_hmma_src_bf16_dst_fp32_sparsity_off": 5}
NEW = {"op_hgmma_src_bf16_dst_fp32_sparsity_off": 90}


@pytest.mark.parametrize(
    ("capability", "told", "flops"),
    [
        ("8.0", OLD, 5.0),
        ("9.0", OLD | NEW, 95.0),
        ("9.0", OLD, None),
        ("9.0", NEW, None),
        ("10.0", OLD | {"op_utchmma_src_bf16_dst_fp32_sparsity_off": 1}, 6.0),
        ("10.0", OLD, None),
        ("12.0", OLD, 5.0),
        ("", OLD | NEW, 95.0),
        ("", OLD, None),
    ],
)
def test_instructions_are_added_where_they_are_all(
    tmp_path: Path, capability: str, told: dict[str, object], flops: float | None
) -> None:
    profile = read(tmp_path, capability, paths(told))
    assert tensor(profile) == {"bf16-tensor": flops}
    said = any("only those of" in note for note in profile.notes)
    assert said == (flops is None)


def test_integers_have_instructions_too(tmp_path: Path) -> None:
    told = {"op_imma_src_int8_sparsity_off": 1, "op_igmma_src_int8_sparsity_off": 2}
    assert tensor(read(tmp_path, "9.0", paths(told))) == {"int8-tensor": 3.0}
    fp8 = {"op_qgmma_src_fp8_dst_fp32_sparsity_off": 4}
    assert tensor(read(tmp_path, "9.0", paths(fp8))) == {"fp8-tensor": 4.0}


@pytest.mark.parametrize("name", ["src_fp16_dst_", "src_", "op__src_fp16", "src_fp16_sparsity_x"])
def test_what_is_no_path(name: str) -> None:
    assert path_of(f"{PATH}{name}.sum") is None


ALL = [
    TensorPath("fp16", op, destination, sparsity)
    for op, destination, sparsity in product(
        (None, "hmma", "hgmma"), (None, "fp16", "fp32"), (None, "on", "off")
    )
]


@given(st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_no_operation_is_in_two_chosen_paths(found: list[TensorPath]) -> None:
    """Each smallest path lies in at most one chosen; the widest one is always chosen."""
    chosen = apart(found)
    smallest = [p for p in ALL if None not in p]
    for one in smallest:
        assert sum(not one.is_apart_from(p) for p in chosen) <= 1
    assert min(p.width[0] for p in found) == min(p.width[0] for p in chosen)
    assert is_whole(chosen, "8.0")


def packed(counts: tuple[object, object, object], unit: str = "sm") -> dict[str, object]:
    names = ("fadd2", "fmul2", "ffma2")
    return {
        f"{unit}__sass_thread_inst_executed_op_{n}_pred_on.sum": v
        for n, v in zip(names, counts, strict=True)
    }


@pytest.mark.parametrize(
    ("capability", "told", "flops"),
    [
        ("10.0", packed((10, 20, 30)), 9 + 2 * (10 + 20 + 2 * 30)),
        ("10.3", packed((10, 20, 30), "smsp"), 9 + 2 * (10 + 20 + 2 * 30)),
        # A chip that has none says n/a.
        ("12.0", packed(("n/a", "n/a", "n/a")), 9.0),
        ("10.0", packed(("n/a", 1, 1)), None),
        ("10.0", {}, 9.0),
        ("9.0", {}, 9.0),
    ],
)
def test_packed_instructions_do_two_at_a_time(
    tmp_path: Path, capability: str, told: dict[str, object], flops: float | None
) -> None:
    profile = read(tmp_path, capability, told)
    assert profile.kernels["flop/fp32"].to_list() == [flops]
    said = any("Packed FP32" in note for note in profile.notes)
    assert said == (capability == "10.0" and (not told or flops is None))
