"""Nsight Compute: factors, units, joins, and what is said where something is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import timeroof
from timeroof.core.errors import InputError, as_notes
from timeroof.core.profile import Profile
from timeroof.read.load import read_files
from timeroof.read.nvidia.ncu_metrics import capability_of, capability_of_names

HEADER = "ID,Process ID,Kernel Name,Stream,CC,Metric Name,Metric Unit,Metric Value"
Row = tuple[int, str, str, str, object]


def write_long(path: Path, rows: Sequence[Row], capability: str = "") -> Path:
    lines = [HEADER]
    lines += [f'{i},1,{k},7,{capability},{m},{u},"{v}"' for i, k, m, u, v in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def vector(launch: int, kernel: str, letter: str, counts: tuple[int, int, int]) -> list[Row]:
    return [
        (launch, kernel, f"sm__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum", "inst", n)
        for op, n in zip(("add", "mul", "fma"), counts, strict=True)
    ]


def base(launch: int = 0, kernel: str = "k", time_ns: int = 1000) -> list[Row]:
    return [
        (launch, kernel, "gpu__time_duration.sum", "ns", time_ns),
        *vector(launch, kernel, "f", (1, 2, 3)),
        *vector(launch, kernel, "h", (0, 0, 0)),
    ]


def tensor_of(profile: Profile) -> list[float | None]:
    values: list[float | None] = profile.kernels["flop/fp16-tensor"].to_list()
    return values


INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"


def test_an_fma_is_two_flops(tmp_path: Path) -> None:
    profile = read_files([write_long(tmp_path / "x", base())])
    assert profile.kernels["flop/fp32"].to_list() == [1 + 2 + 2 * 3]


@pytest.mark.parametrize(
    ("capability", "flops"), [("7.0", 512.0 * 4), ("7.5", None), ("8.0", None), ("12.0", None)]
)
def test_tensor_instructions_have_a_size_on_volta_only(
    tmp_path: Path, capability: str, flops: float | None
) -> None:
    rows = [*base(), (0, "k", INSTRUCTIONS, "inst", 4)]
    profile = read_files([write_long(tmp_path / "x", rows, capability)])
    assert tensor_of(profile) == [flops]
    assert any("no fixed number" in n for n in profile.notes) == (flops is None)


def test_no_tensor_instruction_is_no_tensor_flop_on_any_chip(tmp_path: Path) -> None:
    rows = [*base(), (0, "k", INSTRUCTIONS, "inst", 0)]
    profile = read_files([write_long(tmp_path / "x", rows, "9.0")])
    assert tensor_of(profile) == [0.0]
    assert not any("no fixed number" in n for n in profile.notes)


def test_the_caller_may_name_the_chip(tmp_path: Path) -> None:
    path = write_long(tmp_path / "x", [*base(), (0, "k", INSTRUCTIONS, "inst", 4)])
    assert tensor_of(read_files([path])) == [None]
    assert tensor_of(read_files([path], architecture="Volta")) == [2048.0]
    assert tensor_of(read_files([path], architecture="8.0")) == [None]


def test_what_was_not_collected_is_unknown_and_named(tmp_path: Path) -> None:
    rows = [*base()[:4]]
    profile = read_files([write_long(tmp_path / "x", rows, "8.0")])
    assert profile.kernels["flop/fp16"].null_count() == 1
    assert tensor_of(profile) == [None]
    assert any("Not collected: FLOPs of FP16, tensor cores" in n for n in profile.notes)


def test_a_family_with_a_missing_instruction_is_unknown(tmp_path: Path) -> None:
    rows = base()[:1] + vector(0, "k", "f", (1, 1, 1))[:2]
    profile = read_files([write_long(tmp_path / "x", rows, "6.0")])
    assert profile.kernels["flop/fp32"].null_count() == 1
    assert any("ffma were not" in n for n in profile.notes)
    assert "flop/fp16-tensor" not in profile.kernels.columns


def test_tensor_paths_are_operations_by_precision(tmp_path: Path) -> None:
    path = "sm__ops_path_tensor_src_"
    rows: list[Row] = [
        *base(),
        (0, "k", f"{path}bf16_dst_fp32.sum", "", 100),
        (0, "k", f"{path}bf16_dst_bf16.sum", "", "n/a"),
        (0, "k", f"{path}fp16_dst_fp32.sum", "", 7),
        (0, "k", f"{path}fp16_dst_fp32_sparsity_on.sum", "", 3),
        (0, "k", f"{path}tf32_dst_fp32_sparsity_off.sum", "", 5),
        (0, "k", f"{path}fp8_dst_fp32.sum", "", 11),
        (0, "k", f"{path}int4.sum", "", 1),
    ]
    kernels = read_files([write_long(tmp_path / "x", rows, "9.0")]).kernels
    found = {c: kernels[c][0] for c in kernels.columns if c.endswith("-tensor")}
    assert found == {
        "flop/bf16-tensor": 100.0,
        "flop/fp16-tensor": 7.0,
        "flop/tf32-tensor": 5.0,
        "flop/fp8-tensor": 11.0,
    }


@pytest.mark.parametrize(
    ("metrics", "column", "value"),
    [
        ({"dram__bytes.sum": ("Kbyte", 2)}, "byte/dram", 2000.0),
        (
            {"dram__bytes_op_read.sum": ("byte", 5), "dram__bytes_op_write.sum": ("Mbyte", 1)},
            "byte/dram",
            1e6 + 5,
        ),
        (
            {"dram__sectors_read.sum": ("sector", 2), "dram__sectors_write.sum": ("sector", 1)},
            "byte/dram",
            96.0,
        ),
        ({"dram__bytes.sum.per_second": ("Gbyte/s", 3)}, "byte/dram", 3000.0),
        ({"lts__t_sectors.sum": ("sector", 3)}, "byte/l2", 96.0),
        (
            {
                f"lts__t_sectors_op_{op}.sum": ("sector", n)
                for op, n in {"read": 1, "write": 2, "atom": 3, "red": 4}.items()
            },
            "byte/l2",
            32.0 * (3 + 2 * 7),
        ),
        ({"l1tex__t_sectors.sum": ("sector", 3)}, "byte/l1", 96.0),
        ({"dram__bytes_read.sum": ("byte", 3)}, "byte/dram", None),
    ],
)
def test_bytes_by_whatever_metric_tells_them(
    tmp_path: Path, metrics: dict[str, tuple[str, object]], column: str, value: float | None
) -> None:
    rows = base() + [(0, "k", m, u, v) for m, (u, v) in metrics.items()]
    kernels = read_files([write_long(tmp_path / "x", rows)]).kernels
    if value is None:
        assert column not in kernels.columns
    else:
        assert kernels[column][0] == pytest.approx(value)


@pytest.mark.parametrize(
    ("metrics", "seconds"),
    [
        ([("gpu__time_duration.sum", "msecond", 2), ("Duration", "us", 1)], 2e-3),
        ([("sm__cycles_elapsed.avg", "cycle", 500), ("SM Frequency", "Ghz", "1.00")], 5e-7),
        (
            [
                ("sm__cycles_elapsed.avg", "cycle", 500),
                ("sm__cycles_elapsed.avg.per_second", "Mhz", 1000),
                ("Duration", "us", 9),
            ],
            5e-7,
        ),
        ([("Duration", "us", 9)], 9e-6),
        ([("Elapsed Cycles", "cycle", "3,000"), ("SM Frequency", "cycle/usecond", 1500)], 2e-6),
    ],
)
def test_time_by_the_best_metric(
    tmp_path: Path, metrics: list[tuple[str, str, object]], seconds: float
) -> None:
    path = write_long(tmp_path / "x", [(0, "k", *m) for m in metrics])
    assert read_files([path]).kernels["time_s"][0] == pytest.approx(seconds)


def test_unknown_units_and_missing_times_are_refused(tmp_path: Path) -> None:
    path = write_long(tmp_path / "x", [(0, "k", "gpu__time_duration.sum", "fortnight", 1)])
    with pytest.raises(InputError, match="has no time of its kernels"):
        read_files([path])


def test_flops_from_instructions_per_cycle(tmp_path: Path) -> None:
    rate = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    rows: list[Row] = [
        (0, "k", "gpu__time_duration.sum", "us", 1),
        (0, "k", "sm__cycles_elapsed.avg", "cycle", 1000),
        *((0, "k", rate.format(f"f{op}"), "inst/cycle", 2) for op in ("add", "mul", "fma")),
    ]
    profile = read_files([write_long(tmp_path / "x", rows, "6.1")])
    assert profile.kernels["flop/fp32"].to_list() == [8000.0]
    assert profile.kernels["origin.flops"].to_list() == ["inferred"]


def test_launches_of_one_kernel_become_one_row_with_exact_totals(tmp_path: Path) -> None:
    rows = [r for i in range(1500) for r in base(i, "k", 1000 + i)] + base(1500, "other", 5)
    profile = read_files([write_long(tmp_path / "x", rows)])
    row = profile.kernels.row(0, named=True)
    assert (row["name"], row["calls"], row["launches"]) == ("k", 1500.0, 1500.0)
    assert row["time_s"] == pytest.approx(sum(1000 + i for i in range(1500)) * 1e-9)
    assert row["samples"] is None
    assert row["flop/fp32"] == 1500 * 9


def test_a_total_with_an_unknown_part_is_unknown(tmp_path: Path) -> None:
    rows = [
        *base(0),
        *base(1),
        (0, "k", "dram__bytes.sum", "byte", 5),
        (1, "k", "dram__bytes.sum", "byte", "n/a"),
    ]
    kernels = read_files([write_long(tmp_path / "x", rows)]).kernels
    assert kernels["byte/dram"].to_list() == [None]
    assert kernels["samples"].to_list() == [[1e-6, 1e-6]]


def test_a_folder_with_several_runs_of_the_same_kernels_is_refused(tmp_path: Path) -> None:
    for name, time_ns in (("before", 1000), ("after", 2000)):
        write_long(tmp_path / name, base(time_ns=time_ns))
    with pytest.raises(InputError, match="several runs of the same kernels"):
        read_files([tmp_path])
    together = read_files([tmp_path / "before", tmp_path / "after"])
    assert sorted(together.kernels["rank"].to_list()) == [0, 1]
    assert any("ranks" in note for note in together.notes)


def test_folders_that_repeat_kernels_need_the_names_of_phases(tmp_path: Path) -> None:
    for name in ("fw", "fwbw"):
        (tmp_path / name).mkdir()
        write_long(tmp_path / name / "x.csv", base())
    with pytest.raises(InputError, match=r"several runs \(.*/fw, .*/fwbw\)"):
        read_files([tmp_path])
    (tmp_path / "fwbw").rename(tmp_path / "bwd")
    profile = read_files([tmp_path])
    assert sorted(profile.kernels["phase"].to_list()) == ["backward", "forward"]


def test_files_of_different_kernels_are_one_run(tmp_path: Path) -> None:
    for name in "abc":
        write_long(tmp_path / name, base(kernel=name))
    profile = read_files([tmp_path])
    assert profile.kernels.height == 3
    assert any("different kernels" in note for note in profile.notes)


def test_runs_that_lost_launches_are_joined_with_a_note(tmp_path: Path) -> None:
    time: list[Row] = [(i, "k", "gpu__time_duration.sum", "ns", 10) for i in range(3)]
    write_long(tmp_path / "a", time)
    write_long(tmp_path / "b", [(i, "k", "dram__bytes.sum", "byte", 10) for i in range(2)])
    profile = read_files([tmp_path])
    assert profile.kernels["byte/dram"].to_list() == [None]
    assert any("between 2 and 3 launches" in note for note in profile.notes)


def test_a_failed_run_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        "==PROF== Connected to process 1 (/usr/bin/python3)\n"
        "==PROF== Disconnected from process 1\n"
        "==ERROR== The application returned an error code (1).\n"
    )
    with pytest.raises(InputError, match=r"no table.*returned an error code \(1\)"):
        read_files([path])
    write_long(tmp_path / "y", base())
    assert any("Left out" in note for note in read_files([tmp_path]).notes)


def test_capabilities_by_name_and_by_kernels() -> None:
    assert capability_of("sm_80") == capability_of("8.0") == capability_of("Ampere") == "8.0"
    assert capability_of("10.0") == "10.0"
    assert capability_of("gfx942") is None
    assert capability_of_names(["volta_sgemm_128x64_nn", "ampere_sgemm_64x64"]) == "8.0"
    assert capability_of_names(["turing_h1688gemm"]) == "7.5"


def test_negative_and_absent_times_are_left_out_with_a_note(tmp_path: Path) -> None:
    rows = [*base(0), *base(1, "k", -5), *base(2, "other", 3)]
    rows.append((3, "third", "gpu__time_duration.sum", "ns", "nan"))
    profile = read_files([write_long(tmp_path / "x", rows)])
    assert profile.kernels["calls"].sum() == 2
    assert "left-out" in [note.code for note in as_notes(profile.notes)]
    assert isinstance(profile.kernels, pl.DataFrame)


def test_a_summary_per_kernel_holds_averages_of_its_launches(tmp_path: Path) -> None:
    """`--print-summary per-kernel`: rows without an ID, one per grid, with invocations."""
    head = ["Process ID", "Kernel Name", "Grid Size", "CC", "Invocations", "Metric Name",
            "Metric Unit", "Minimum", "Maximum", "Average"]  # fmt: skip
    metrics = [("gpu__time_duration.sum", "ns"), ("dram__bytes.sum", "byte")]
    rows = [
        ["1", "gemm", f"({grid}, 1, 1)", "9.0", calls, metric, unit, "1", "9", average]
        for grid, calls, averages in (("8", "1,000", ("2,000.00", "30")), ("16", "3", ("5", "70")))
        for (metric, unit), average in zip(metrics, averages, strict=True)
    ]
    path = tmp_path / "summary.csv"
    table = "\n".join(",".join(f'"{cell}"' for cell in row) for row in [head, *rows])
    path.write_text("==PROF== Connected to process 1\n" + table + "\n")
    row = timeroof.load(path).rows.row(0, named=True)
    assert (row["calls"], row["time_spread"]) == (1003, None)
    assert row["time_s"] == pytest.approx((1000 * 2000 + 3 * 5) * 1e-9)
    assert row["byte/dram"] == 1000 * 30 + 3 * 70


def test_one_column_tells_how_all_numbers_of_a_table_are_written(tmp_path: Path) -> None:
    """In German 1.234 is a thousand and more; French and Swiss separators are no digits."""
    metrics = ["gpu__time_duration.sum", "dram__bytes.sum"]
    head = ["ID", "Kernel Name", *metrics]
    for cells in (["12,34", "1.234"], ["12,34", "1\u202f234"], ["12.34", "1\u2019234"]):
        path = tmp_path / "raw.csv"
        rows = [head, ["", "", "us", "byte"], ["0", "k", *cells]]
        path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows))
        row = timeroof.load(path).rows.row(0, named=True)
        assert (row["time_s"], row["byte/dram"]) == (pytest.approx(12.34e-6), 1234)
