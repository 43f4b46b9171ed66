"""Known answers of recorded Nsight Compute and nvprof files, and every such file read or refused."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.load import read_files


class Known(NamedTuple):
    folder: str
    launches: int
    names: int
    time_s: float
    flops: dict[str, int]
    byte_totals: tuple[int, int, int]
    zero_names: int
    zero_launches: int | None


DEEPCAM = "ncu/v100_deepcam_pytorch_fp32-O0-Adam"
CLIMATE = "ncu/v100_climateseg_tf_fp32-batch1-amp"
KNOWN = [
    Known(
        f"{DEEPCAM}/fw",
        633,
        35,
        0.170425887,
        {"fp32": 1_184_589_546_751},
        (53_414_706_976, 94_257_474_080, 129_256_486_688),
        12,
        363,
    ),
    Known(
        f"{DEEPCAM}/bw",
        1424,
        54,
        0.400430364,
        {"fp32": 2_321_340_266_592},
        (84_178_610_368, 237_560_286_240, 442_969_218_016),
        14,
        689,
    ),
    Known(
        f"{DEEPCAM}/opt",
        2709,
        7,
        0.016944146,
        {"fp32": 2_032_424_864},
        (5_296_974_080, 5_225_147_904, 5_419_653_120),
        0,
        0,
    ),
    Known(
        f"{CLIMATE}/fw",
        558,
        54,
        0.104358946,
        {"fp32": 20_616_647_879, "fp16": 2_564_852_800, "fp16-tensor": 4_674_363_064_320},
        (27_878_496_704, 87_267_492_064, 100_496_709_312),
        15,
        None,
    ),
    Known(
        f"{CLIMATE}/fwbw",
        5117,
        111,
        0.318180126,
        {"fp32": 49_675_892_803, "fp16": 5_786_619_456, "fp16-tensor": 14_498_080_489_472},
        (85_153_100_128, 263_298_643_808, 282_704_905_344),
        32,
        None,
    ),
]


def flop_columns(profile: Profile) -> list[str]:
    return [c for c in profile.amount_columns if c.startswith("flop/")]


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: k.folder)
def test_known_answers(shared_data: Path, known: Known) -> None:
    profile = read_files([shared_data / known.folder])
    kernels = profile.kernels
    assert kernels["kind"].unique().to_list() == ["kernel"]
    assert kernels["calls"].sum() == known.launches
    assert kernels.height == kernels["name"].n_unique() == known.names
    assert kernels["time_s"].sum() == pytest.approx(known.time_s, abs=5e-10)
    totals = {c.removeprefix("flop/"): kernels[c].sum() for c in flop_columns(profile)}
    assert {p: n for p, n in totals.items() if n} == known.flops
    assert tuple(kernels[f"byte/{v}"].sum() for v in ("dram", "l2", "l1")) == known.byte_totals
    zero = kernels.filter(pl.sum_horizontal(flop_columns(profile)) == 0)
    assert zero.height == known.zero_names
    if known.zero_launches is not None:
        assert zero["calls"].sum() == known.zero_launches
    assert any(pl.Series(profile.notes).str.contains("another order")) == (
        "climate" in known.folder
    )


def test_the_files_of_one_run_may_be_named_one_by_one(shared_data: Path) -> None:
    files = sorted((shared_data / DEEPCAM / "fw").iterdir())
    whole = read_files([shared_data / DEEPCAM / "fw"]).kernels
    assert read_files(files).kernels.drop("phase").equals(whole.drop("phase"))


def test_a_folder_of_phases_is_one_profile(shared_data: Path) -> None:
    profile = read_files([shared_data / DEEPCAM])
    by_phase = dict(profile.kernels.group_by("phase").agg(pl.col("calls").sum()).iter_rows())
    assert by_phase == {"forward": 633, "backward": 1424, "optimizer": 2709}
    assert any("sums are left out" in note for note in profile.notes)


def test_the_authors_sums_agree_with_the_launches(shared_data: Path) -> None:
    launches = read_files([shared_data / DEEPCAM / "fw"]).kernels
    sums = read_files([shared_data / DEEPCAM / "processed" / "fp32-O0-Adam-fw.csv"]).kernels
    assert sums["flop/fp32"].sum() == launches["flop/fp32"].sum()
    assert sums["time_s"].sum() == pytest.approx(launches["time_s"].sum(), rel=0.01)


def test_forward_beside_forward_and_backward_is_refused(shared_data: Path) -> None:
    with pytest.raises(InputError, match="holds several runs"):
        read_files([shared_data / CLIMATE])


def test_a100_resnet18(shared_data: Path) -> None:
    profile = read_files([shared_data / "ncu/a100_resnet18_raw_wide.csv.gz"])
    kernels = profile.kernels
    assert (kernels["calls"].sum(), kernels.height) == (235, 46)
    assert round(kernels["time_s"].sum() * 1e9, 3) == 2_497_280
    assert kernels["flop/fp32"].sum() == 485_653_120
    assert kernels["flop/fp16-tensor"].null_count() == kernels.height
    assert kernels["byte/dram"].sum() == 271_917_056 + 881_664
    assert kernels.filter(pl.col("flop/fp32") == 0)["calls"].sum() == 53
    assert profile.device == "NVIDIA A100-SXM4-40GB"
    assert any("Not collected" in note and "tensor" in note for note in profile.notes)


@pytest.mark.parametrize(
    ("file", "rows", "calls", "time_s"),
    [
        ("nvprof/p100_deepspeech_bs64-fp32_summary_console.txt", 103, 975_148, 90.8953),
        ("nvprof/titanxp_babelstream_gpu_trace_console.txt.gz", 7, 604, 0.965745),
        ("nvprof/titanxp_cfd_gpu_trace.csv.gz", 8, 16_169, 0.422416),
        ("nvprof/v100_darknet19_all_metrics_console.txt.gz", 16, 184, 0.00245403),
        ("ncu/h800_cute_softmax_ui_transposed.csv", 1, 1, 741.86e-6),
        ("ncu/a100_torch_square_console_details.txt", 14, 17, 164.69e-6),
        ("ncu/rtx5090_deepseek_ocr_details", 10, 10, 357.79e-6),
        ("ncu/v100_picongpu_long_bom.csv", 1, 7, 1.48768e-3),
    ],
)
def test_other_layouts(shared_data: Path, file: str, rows: int, calls: int, time_s: float) -> None:
    kernels = read_files([shared_data / file]).kernels
    assert (kernels.height, kernels["calls"].sum()) == (rows, calls)
    assert kernels["time_s"].sum() == pytest.approx(time_s, rel=1e-5)


def test_darknet_layers_have_their_flops(shared_data: Path) -> None:
    profile = read_files([shared_data / "nvprof/v100_darknet19_all_metrics_console.txt.gz"])
    # The program prints 5.58 BFLOPs of convolutions (multiplies and adds both counted);
    # tiles that are padded and the other layers add the rest.
    assert 5.5e9 < profile.kernels["flop/fp32"].sum() < 9e9
    assert profile.kernels["flop/fp16-tensor"].sum() == 0
    assert profile.kernels["origin.time"].unique().to_list() == ["inferred"]
