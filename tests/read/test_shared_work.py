"""The kernels of one op share its work by what each does; what nobody knows is unknown, not 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.kineto_events import document, kernel, launch, op
from tests.recorded_data import DATA, needs_recorded_data

X, W = [8, 64, 28, 28], [64, 64, 3, 3]
# FP16: two bytes an element; as many output places as input places.
X_BYTES, W_BYTES = 2 * 8 * 64 * 28 * 28, 2 * 64 * 64 * 9
FLOPS = 2 * 8 * 28 * 28 * 64 * 64 * 9
HALF = "c10::Half"
FORWARD = {
    "Input Dims": [X, W, [], [], [], [], [], [], []],
    "Input type": [HALF, HALF, "ScalarList", "ScalarList", "ScalarList", "Scalar", *["Scalar"] * 3],
    "Concrete Inputs": ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "False"],
}
BACKWARD = {
    "Input Dims": [X, X, W, [], [], [], [], [], [], [], []],
    "Input type": [HALF] * 3 + ["ScalarList"] * 4 + ["Scalar", "ScalarList", "Scalar", ""],
    "Concrete Inputs": ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1",
                        "[True, True, False]"],
}  # fmt: skip


def rows(folder: Path, name: str, args: dict[str, Any], kernels: list[tuple[str, float]]) -> Any:
    events = [op(name, 0, 10 * len(kernels), **args)]
    for n, (kernel_name, us) in enumerate(kernels):
        events += [launch(n + 1, 10 * n + 1), kernel(kernel_name, 1000 + 100 * n, us, n + 1)]
    path = folder / "trace.json"
    path.write_text(json.dumps(document(events)))
    report = timeroof.analyze(timeroof.load(path).profile, "a100-sxm4-40gb")
    return {row["name"]: row for row in report.rows.iter_rows(named=True)}


def test_layout_changes_have_their_bytes_and_the_main_kernel_the_flops(tmp_path: Path) -> None:
    found = rows(tmp_path, "aten::cudnn_convolution", FORWARD, [
        ("void nchwToNhwcKernel<__half>", 6), ("void nchwToNhwcKernel<__half>", 2),
        ("sm80_xmma_fprop_implicit_gemm_f16", 40), ("void nhwcToNchwKernel<__half>", 8),
    ])  # fmt: skip
    main = found["sm80_xmma_fprop_implicit_gemm_f16"]
    assert main["total_flops"] == FLOPS
    assert main["byte/dram"] == 2 * X_BYTES + W_BYTES
    moved = [found[f"void {way}Kernel<__half>"] for way in ("nchwToNhwc", "nhwcToNchw")]
    # Input, weight and result are read and written once; half of it, by time, before the product.
    assert sum(row["byte/dram"] for row in moved) == pytest.approx(2 * (2 * X_BYTES + W_BYTES))
    assert moved[0]["byte/dram"] == pytest.approx(moved[1]["byte/dram"])
    assert [row["total_flops"] for row in moved] == [0, 0]
    assert {row["origin.bytes/dram"] for row in moved} == {"inferred"}


def test_fewer_layout_changes_than_tensors_are_unknown(tmp_path: Path) -> None:
    found = rows(tmp_path, "aten::cudnn_convolution", FORWARD, [
        ("void nchwToNhwcKernel<__half>", 6), ("sm80_xmma_fprop_implicit_gemm_f16", 40),
    ])  # fmt: skip
    moved = found["void nchwToNhwcKernel<__half>"]
    assert (moved["byte/dram"], moved["total_flops"], moved["limiter"]) == (None, None, "unknown")


def test_each_gradient_of_a_convolution_has_its_own_flops(tmp_path: Path) -> None:
    names = "sm80_xmma_dgrad_implicit_gemm_f16", "sm80_xmma_wgrad_implicit_gemm_f16"
    found = rows(tmp_path, "aten::convolution_backward", BACKWARD, [(names[0], 30), (names[1], 50)])
    assert [found[n]["total_flops"] for n in names] == [FLOPS, FLOPS]
    both = rows(tmp_path, "aten::convolution_backward", BACKWARD, [("implicit_gemm", 80)])
    assert both["implicit_gemm"]["total_flops"] == 2 * FLOPS


def test_batch_norm_reads_its_input_twice(tmp_path: Path) -> None:
    args = {
        "Input Dims": [X, [64], [64], [64], [64], [], [], []],
        "Input type": ["float"] * 5 + ["Scalar"] * 3,
        "Concrete Inputs": [""] * 5 + ["True", "0.1", "1e-05"],
    }
    statistics = "void at::native::batch_norm_collect_statistics_kernel<float>"
    transform = "void at::native::batch_norm_transform_input_kernel<float>"
    found = rows(tmp_path, "aten::native_batch_norm", args, [(statistics, 9), (transform, 12)])
    x = 4 * 8 * 64 * 28 * 28
    assert found[statistics]["byte/dram"] == pytest.approx(x, rel=1e-3)
    assert found[transform]["byte/dram"] == pytest.approx(2 * x, rel=1e-3)


def test_kernels_without_launch_and_grid_borrow_by_name_and_time(tmp_path: Path) -> None:
    args = {"Input Dims": [[256, 256], [256, 256]], "Input type": ["float", "float"]}
    events = [op("aten::mm", 0, 10, **args), launch(1, 1), kernel("Cijk_gemm", 100, 50, 1)]
    for n, us in ((7, 52.0), (8, 500.0)):
        late = kernel("Cijk_gemm", 200 + 1000 * n, us, 90 + n)
        late["args"].pop("grid")
        events.append(late)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document(events)))
    table = timeroof.load(path).rows
    known = {round(row["time_s"] * 1e6): row["op"] for row in table.iter_rows(named=True)}
    assert known == {50: "aten::mm", 52: "aten::mm", 500: None}
    lent = next(row for row in table.iter_rows(named=True) if row["label.link"] == "inferred")
    assert lent["total_flops"] == 2 * 256**3


@needs_recorded_data
@pytest.mark.parametrize(
    ("file", "least"),
    [
        ("mi300x_resnet_train_8gpu_rank0", 0.20),
        ("h100_vit_nsfw_infer", 0.999),
        ("v100_recsys_train_rank1of2", 0.41),
    ],
)
def test_known_shares_of_recorded_files(file: str, least: float) -> None:
    totals = timeroof.load(DATA / f"kineto/{file}.json.gz").totals
    assert totals.known_time_share is not None
    assert totals.known_time_share >= least


@needs_recorded_data
def test_an_update_of_tables_is_shared_by_its_kernels() -> None:
    """Both kernels together do the op's work; what numbers and sorts indices has its bytes."""
    report = timeroof.load(DATA / "kineto/v100_recsys_train_rank1of2.json.gz")
    rows = report.rows.filter(pl.col("op").str.contains("SplitLookupFunction_rowwise_adagrad"))
    updates = rows.filter(pl.col("name").str.contains("backward_codegen.*_per_row"))
    assert updates["byte/dram"].null_count() == 0
    per_second = updates["byte/dram"] / updates["time_s"]
    of_calls = updates.group_by("shape").agg(n=pl.len(), calls=pl.col("label.op_calls").cast(float))
    pairs = of_calls.filter(pl.col("n") == 2)
    assert pairs.height > 0
    assert pairs["calls"].list.sum().to_list() == pytest.approx([1.0] * pairs.height, abs=1e-5)
    assert per_second.max() < 900e9
    sorts = rows.filter(pl.col("name").str.contains("RadixSortOnesweep"))
    assert (sorts["byte/dram"] > 0).all()
    known = rows.filter(pl.col("limiter") != "unknown")["time_s"].sum() / rows["time_s"].sum()
    assert known > 0.9
