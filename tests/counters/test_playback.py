"""Recorded profiler output played back through stand-ins: the known answers come out."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.counters.standin import calls, install, install_ncu, options
from tests.read.test_recorded_counters import KNOWN, Known, flop_columns
from timeroof.counters import Collected, collect, join

PAPER = [k for k in KNOWN if "deepcam" in k.folder]
# Answers with the file of the one metric that it is asked for.
ONE_METRIC = """
import gzip
assert len(metrics) == 1, metrics
with gzip.open(f"{recorded}/out.{metrics[0]}.gz") as source, open(report, "wb") as out:
    out.write(source.read())
print("Apex flag is True")
"""


def play_back(shared_data: Path, folder: str, tmp_path: Path) -> Collected:
    recorded = shared_data / folder
    names = [p.name.removeprefix("out.").removesuffix(".gz") for p in recorded.iterdir()]
    body = f"recorded = {str(recorded)!r}\n" + ONE_METRIC
    listed = sorted({n.split(".")[0] for n in names})
    found = install_ncu(tmp_path / "bin", body, version="2020.2.0.0", listed=listed)
    told = options(found, metrics_per_run=1, region="profiler")
    return collect("ncu", ["python", "train.py"], architecture="Volta", options=told)


@pytest.mark.parametrize("known", PAPER, ids=lambda k: k.folder.rpartition("/")[2])
def test_the_paper_list_gives_the_known_answers(
    shared_data: Path, tmp_path: Path, known: Known
) -> None:
    collected = play_back(shared_data, known.folder, tmp_path)
    kernels = collected.profile.kernels
    assert len(collected.commands) == len(collected.metrics) == 12
    assert kernels["calls"].sum() == known.launches
    assert kernels.height == known.names
    assert kernels["time_s"].sum() == pytest.approx(known.time_s, abs=5e-10)
    totals = {c.removeprefix("flop/"): kernels[c].sum() for c in flop_columns(collected.profile)}
    assert {p: n for p, n in totals.items() if n} == known.flops
    assert tuple(kernels[f"byte/{v}"].sum() for v in ("dram", "l2", "l1")) == known.byte_totals
    assert kernels["origin.flops"].unique().to_list() == ["measured"]
    # FP64 was not recorded: left out, and named.
    assert set(collected.not_collected) == {
        f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("dadd", "dmul", "dfma")
    }
    assert any("dfma" in n and "does not know it" in n for n in collected.notes)
    assert collected.launches is not None
    assert collected.launches["flop/fp32"].sum() == known.flops["fp32"]


def test_command_lines_and_a_join_with_a_clean_run(shared_data: Path, tmp_path: Path) -> None:
    known = PAPER[0]
    collected = play_back(shared_data, known.folder, tmp_path)
    line = calls(tmp_path / "bin")[0]
    assert line[line.index("--metrics") + 1] == "sm__cycles_elapsed.avg"
    assert line[line.index("--profile-from-start") + 1] == "off"
    assert line[-2:] == ["python", "train.py"]
    assert collected.profile.source.tool == "Nsight Compute"
    assert collected.profile.source.version == "2020.2.0.0"
    counted = collected.profile
    clean = counted.with_kernels(
        counted.kernels.select(
            "name", pl.col("time_s") * 2, "calls", pl.lit(1.0).alias("byte/dram")
        )
    )
    joined = join(clean, counted, collected.launches)
    assert joined.kernels["time_s"].sum() == pytest.approx(2 * known.time_s)
    assert joined.kernels["byte/dram"].sum() == pytest.approx(known.byte_totals[0])
    assert joined.kernels["flop/fp32"].sum() == pytest.approx(known.flops["fp32"])


def test_the_paper_list_through_a_live_run(shared_data: Path, tmp_path: Path) -> None:
    """As `timeroof run --counters ncu --counter-metrics-per-run 1` does it on a V100."""
    from timeroof.api.counting import Counting
    from timeroof.api.reports import analyze
    from timeroof.cli.counters import run_counted
    from timeroof.core.profile import Profile, Source
    from timeroof.live.recording import Recording

    known = PAPER[0]
    rows = play_back(shared_data, known.folder, tmp_path).profile.kernels
    # A clean run of the same kernels: twice as fast, nothing counted.
    clean = rows.select("name", "calls", pl.col("time_s") / 2)
    report = analyze(Profile.of(clean, Source(tool="timeroof run")), "v100-sxm2")
    (tmp_path / "bin" / "calls.jsonl").unlink()
    counting = Counting(
        tool="ncu", command=("python", "train.py"), marker="auto", warmup=2, measured_steps=20,
        architecture="7.0", options=options(tmp_path / "bin", metrics_per_run=1),
    )  # fmt: skip
    after, code = run_counted(counting, report, Recording(steps_seen=9, uses_gpu=True), 0, 1.0)
    assert code == 0
    kernels = after.profile.kernels
    assert kernels["time_s"].sum() == pytest.approx(known.time_s / 2, abs=1e-9)
    totals = {c.removeprefix("flop/"): kernels[c].sum() for c in flop_columns(after.profile)}
    assert {p: pytest.approx(n) for p, n in known.flops.items()} == {
        p: n for p, n in totals.items() if n
    }
    found = tuple(kernels[f"byte/{v}"].sum() for v in ("dram", "l2", "l1"))
    assert found == pytest.approx(known.byte_totals)
    lines = calls(tmp_path / "bin")
    assert len(lines) == 12
    assert all(line[line.index("--profile-from-start") + 1] == "off" for line in lines)
    assert after.totals.flops["fp16-tensor"] == pytest.approx(known.flops.get("fp16-tensor", 0.0))


NEWER = [
    ("2021.2.0.0", "ncu/a100_attention_long/bert_torch_nsight.csv.gz", "Ampere", 26),
    ("2022.1.0.0", "ncu/a100_resnet18_raw_wide.csv.gz", "Ampere", 235),
    (
        "2025.1.0.0",
        "ncu/b200_attention_decode_raw_wide/torch_sdpa_flash__gqa_bf16_b64_ctx4k_p64.ncu.csv.gz",
        "10.0",
        16,
    ),
    ("2026.2.0.0", "ncu/rtx5070_gemm_print_units_base/gemm_naive.csv", "12.0", 1),
]


@pytest.mark.parametrize(("version", "file", "architecture", "launches"), NEWER)
def test_ncu_of_several_versions(
    shared_data: Path, tmp_path: Path, version: str, file: str, architecture: str, launches: int
) -> None:
    source = shared_data / file
    plain = tmp_path / "report.csv"
    plain.write_bytes(
        gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    )
    body = f"import shutil\nshutil.copy({str(plain)!r}, report)\n"
    found = install_ncu(tmp_path / "bin", body, version=version)
    collected = collect("ncu", ["./program"], architecture=architecture, options=options(found))
    assert collected.profile.kernels["calls"].sum() == launches
    assert collected.version == version
    (line,) = calls(found)
    assert "--print-units" in line


def test_a_failed_program_of_a_b200(shared_data: Path, tmp_path: Path) -> None:
    from timeroof.core.errors import InputError

    source = shared_data / "ncu/b200_attention_decode_raw_wide"
    source /= "flashinfer_paged_decode__gqa_bf16_b128_ctx8k_p64.ncu.csv"
    body = f"import shutil\nshutil.copy({str(source)!r}, report)\nsys.exit(1)\n"
    found = install_ncu(tmp_path / "bin", body)
    told = options(found, folder=tmp_path / "kept")
    with pytest.raises(InputError, match=r"The application returned an error code \(1\)"):
        collect("ncu", ["./program"], architecture="10.0", options=told)


def test_rocprofv3_of_a_strix_halo(shared_data: Path, tmp_path: Path) -> None:
    recorded = shared_data / "rocprof/rocprofv3_gfx1151_llama_decode"
    body = f"""
import shutil
if args == ["--version"]:
    sys.exit(print("version: 1.0.0"))
if args == ["--list-avail"]:
    sys.exit(print("Counter_Name        :\\tFETCH_SIZE"))
note()
os.makedirs(value("-d"))
shutil.copy({str(recorded / "decode_kernel_trace.csv")!r}, value("-d") + "/timeroof_1_kernel_trace.csv")
shutil.copy({str(recorded / "decode_fetch_counter_collection.csv")!r},
            value("-d") + "/timeroof_1_counter_collection.csv")
"""
    found = install(tmp_path / "bin", "rocprofv3", body)
    collected = collect(
        "rocprofv3", ["llama", "-n", "1"], architecture="gfx1151", options=options(found)
    )
    (line,) = calls(found)
    assert line[:3] == ["--pmc", "FETCH_SIZE", "--kernel-trace"]
    assert line[-4:] == ["--", "llama", "-n", "1"]
    assert collected.not_collected == {"WRITE_SIZE": "rocprofv3 does not list it on this machine"}
    assert collected.profile.kernels["calls"].sum() == 144
    assert "label.dram_read_bytes" in collected.profile.kernels.columns
    assert any("RDNA" in note for note in collected.notes)


def test_the_files_stay_where_a_folder_is_named(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "ncu/rtx5070_gemm_print_units_base/saxpy.csv"
    body = f"import shutil\nshutil.copy({str(source)!r}, report)\nprint('hello')\n"
    found = install_ncu(tmp_path / "bin", body)
    kept = tmp_path / "kept"
    collect("ncu", ["./p"], architecture="12.0", options=options(found, folder=kept))
    assert len(list((kept / "reports").iterdir())) == 1
    assert (kept / "output" / "program.out").read_text() == "hello\n"
    shutil.rmtree(kept)
