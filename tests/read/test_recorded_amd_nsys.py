"""The recorded files of Nsight Systems, AMD's profilers and XLA, against known answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, sniffed
from timeroof.read.open import open_input


def read(path: Path) -> Profile:
    found = open_input(path)
    chosen = sniffed(found)
    assert chosen is not None, path
    return chosen.read(found, ReadOptions())


def totals(profile: Profile, *kinds: str) -> tuple[float, int]:
    rows = profile.kernels.filter(pl.col("kind").is_in(kinds))
    return rows["calls"].sum(), round(rows["time_s"].sum() * 1e9)


def test_mi300x_bmm1(shared_data: Path) -> None:
    profile = read(shared_data / "rocprof" / "rocprof_compute_mi300x_bmm1")
    gemm = profile.kernels.filter(pl.col("name").str.contains("batched_matrix_mult"))
    assert totals(profile.with_kernels(gemm), "kernel") == (150, 4_358_035)
    assert gemm["flop/bf16-tensor"].sum() == 322_122_547_200
    other = [c for c in gemm.columns if c.startswith("flop/") and c != "flop/bf16-tensor"]
    assert gemm.select(pl.sum_horizontal(other)).to_series().sum() == 0
    assert profile.device == "MI300X_A1"
    assert profile.kernels["calls"].sum() == 301


def test_h100_fsdp(shared_data: Path) -> None:
    profile = read(shared_data / "nsys" / "h100_2gpu_fsdp_1s.sqlite.gz")
    assert totals(profile, "kernel") == (3442, 44_829_522)
    assert totals(profile, "copy")[0] == 904
    assert totals(profile, "memset")[0] == 22
    copies = profile.kernels.filter(pl.col("name") == "Memcpy HtoD")
    assert copies["link/pcie"].sum() == 2 * 25_475_253_792
    assert profile.wall_s is not None
    assert profile.kernel_s is not None
    assert sum(profile.idle_by_cause.values()) == pytest.approx(profile.wall_s - profile.kernel_s)
    linked = profile.kernels.filter(pl.col("op").is_not_null() & (pl.col("kind") == "kernel"))
    assert linked["calls"].sum() > 3200


@pytest.mark.parametrize(
    ("name", "kinds", "calls", "time_ns"),
    [
        ("nsys/rtx3080_tiny_full_schema.sqlite.gz", ("kernel",), 2, 4_129),
        ("nsys/rtx3090_tensorrt_conv.sqlite.gz", ("kernel",), 36, 6_415_244),
        ("rocprof/rocprofv3_mi300x_ck_bmm_rocpd.db.gz", ("kernel",), 151, 2_604_546),
        (
            "rocprof/rocprofv3_mi350x_train_results.json.gz",
            ("kernel", "collective"),
            43_915,
            4_441_741_378,
        ),
        ("rocprof/rocprofv3_mi350x_flash_attn_func", ("kernel",), 45, 1_995_814),
        ("rocprof/rocprof_mi100_picongpu_reformatted_inst.csv", ("kernel",), 1, 2_461_174),
        ("nsys/rtx5090_deepseek_ocr_sam_cuda_gpu_kern_sum.csv", ("kernel",), 652, 21_895_142),
    ],
)
def test_known_totals(
    shared_data: Path, name: str, kinds: tuple[str, ...], calls: int, time_ns: int
) -> None:
    assert totals(read(shared_data / name), *kinds) == (calls, time_ns)


def test_xplane_of_eight_devices(shared_data: Path) -> None:
    profile = read(shared_data / "xla" / "mi300x_jax_conv3d_8gpu.xplane.pb")
    per_gpu = (
        profile.kernels.with_columns(pl.col("stream").str.extract(r"^(\d+):").alias("gpu"))
        .group_by("gpu")
        .agg(pl.col("calls").sum(), pl.col("time_s").sum())
        .sort("gpu")
    )
    assert per_gpu["calls"].to_list()[1:] == [25] * 7
    assert all(3.2e-3 < t < 3.7e-3 for t in per_gpu["time_s"].to_list()[1:])
    assert profile.device == "AMD Instinct MI300X"
    assert "jit_forward_3d_conv" in profile.kernels["module"].to_list()


def test_a_copy_moves_what_it_must(shared_data: Path) -> None:
    """vecCopy of 2^20 doubles, 3 times: 8 MiB in and 8 MiB out of memory and L2."""
    profile = read(shared_data / "rocprof" / "omniperf_mi300x_vcopy_rocprofv2")
    row = profile.kernels.row(0, named=True)
    assert row["byte/dram"] == pytest.approx(3 * 2 * 2**23, rel=0.01)
    assert row["byte/l2"] == pytest.approx(3 * 2 * 2**23, rel=0.01)
    assert row["time_s"] is None


def test_a_folder_of_mixed_runs_is_refused(shared_data: Path, tmp_path: Path) -> None:
    for name in ("rocprofv3_mi350x_flash_attn_func", "rocprofv3_mi350x_preshuffle_gemm"):
        shutil.copytree(shared_data / "rocprof" / name, tmp_path / name)
    found = open_input(tmp_path)
    chosen = sniffed(found)
    assert chosen is not None
    with pytest.raises(InputError, match="several"):
        chosen.read(found, ReadOptions())
