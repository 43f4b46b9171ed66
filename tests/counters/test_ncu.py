"""Driving Nsight Compute: its command line, its troubles, and that nothing counted is lost."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.counters.standin import WRITE_TABLE, calls, install_ncu, options
from timeroof.core.errors import InputError, UsageError
from timeroof.counters import CollectOptions, collect
from timeroof.counters.ncu import command_line
from timeroof.counters.tools import Tool

GOOD = WRITE_TABLE + "write(table())\n"


def count(place: Path, **more: object):  # type: ignore[no-untyped-def]
    return collect("ncu", ["./p", "--x"], architecture="8.0", options=options(place, **more))


def line_of(version: tuple[int, ...], **more: object) -> list[str]:
    told = CollectOptions(**more)  # type: ignore[arg-type]
    return command_line(Tool("ncu", "ncu", version), ("m.sum",), Path("r.csv"), told, ["./p"])


def pair(line: list[str], option: str) -> str:
    return line[line.index(option) + 1]


def test_the_command_line() -> None:
    line = line_of((2023, 3))
    assert line[0] == "ncu"
    assert line[-1] == "./p"
    assert pair(line, "--log-file") == "r.csv"
    assert pair(line, "--metrics") == "m.sum"
    assert pair(line, "--cache-control") == "all"
    assert pair(line, "--clock-control") == "base"
    assert not {"--replay-mode", "--nvtx", "--profile-from-start", "--launch-count"} & set(line)


def test_control_of_region_and_caches() -> None:
    line = line_of((2023, 3), region="profiler", cache="keep")
    assert pair(line, "--profile-from-start") == "off"
    assert pair(line, "--cache-control") == "none"


def test_all_metrics_in_one_run(tmp_path: Path) -> None:
    found = install_ncu(tmp_path / "bin", GOOD)
    said: list[tuple[str, float]] = []
    collected = count(found, progress=lambda what, share: said.append((what, share)))
    assert len(calls(found)) == 1
    kernels = collected.profile.kernels
    assert dict(zip(kernels["name"], kernels["calls"], strict=True)) == {"a": 2, "b": 1}
    assert kernels["flop/fp32"].sum() == 3 * (10 + 10 + 20)
    assert kernels["flop/bf16-tensor"].sum() == 30
    assert collected.launches is not None
    assert collected.launches["name"].to_list() == ["a", "b", "a"]
    assert "passes over every kernel" in said[0][0]
    assert not collected.interrupted


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ncu is not on PATH; install NVIDIA Nsight Compute"):
        count(tmp_path)


def test_too_old(tmp_path: Path) -> None:
    found = install_ncu(tmp_path / "bin", GOOD, version="2019.1.0")
    with pytest.raises(UsageError, match=r"ncu 2019\.1\.0 is too old; install 2020\.2"):
        count(found)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "open(report, 'w').write('==ERROR== ERR_NVGPUCTRPERM - The user does not have')\nsys.exit(1)",
            r"may not read the GPU's counters .*NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"ncu was killed \(signal 9, often for want"),
        ("sys.exit('write: No space left on device')", "ncu found the disk full; make space"),
        ("open(report, 'w').write('==WARNING== No kernels were profiled.')", "saw no kernel to count"),
        ("sys.exit('Segmentation fault')", r"code 1 and no result \(Segmentation fault\)"),
        ("open(report, 'w').write('\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\\n\"0\"')",
         "left a report that cannot be used"),
    ],
)  # fmt: skip
def test_troubles_are_one_sentence(tmp_path: Path, body: str, said: str) -> None:
    found = install_ncu(tmp_path / "bin", body + "\n")
    with pytest.raises((InputError, UsageError), match=said) as caught:
        count(found, folder=tmp_path / "kept")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "kept" / "output").is_dir()


def test_half_a_report_keeps_its_whole_rows(tmp_path: Path) -> None:
    body = WRITE_TABLE + "text = table()\nwrite(text[: int(len(text) * 0.7)])\nsys.exit(9)\n"
    collected = count(install_ncu(tmp_path / "bin", body))
    assert collected.profile.kernels["calls"].sum() >= 2
    assert any("ended with code 9" in note for note in collected.notes)


def test_a_metric_that_only_the_run_refuses_is_left_out(tmp_path: Path) -> None:
    body = WRITE_TABLE + (
        "if 'l1tex__t_bytes.sum' in metrics:\n"
        "    open(report, 'w').write('==ERROR== Failed to find metric regex:^l1tex__t_bytes(...)')\n"
        "    sys.exit(1)\n"
        "write(table())\n"
    )
    found = install_ncu(tmp_path / "bin", body)
    collected = count(found)
    assert len(calls(found)) == 2
    assert list(collected.not_collected) == ["l1tex__t_bytes.sum"]
    assert "byte/l1" not in collected.profile.kernels.columns


def test_a_listing_filters_and_offers_other_names(tmp_path: Path) -> None:
    listed = ["gpu__time_duration", "dram__bytes_read", "dram__bytes_write", "lts__t_sectors"]
    listed += ["sm__inst_executed_pipe_tensor", "l1tex__t_bytes"]
    found = install_ncu(tmp_path / "bin", GOOD, listed=listed)
    collected = count(found)
    asked = pair(calls(found)[0], "--metrics").split(",")
    assert {"dram__bytes_read.sum", "lts__t_sectors.sum"} <= set(asked)
    # Instrumented metrics are of a family that is not listed at all: the run will tell.
    assert "sm__sass_thread_inst_executed_op_ffma_pred_on.sum" in asked
    assert not [m for m in asked if "ops_path" in m]
    assert collected.profile.kernels["byte/l2"].sum() == 3 * 320
    # Tensor instructions of an Ampere chip have no fixed size.
    assert collected.profile.kernels["flop/fp16-tensor"].null_count() == 2


def test_blackwell_counts_the_path_that_its_catalogue_lists(tmp_path: Path) -> None:
    path = "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32"
    listed = ["gpu__time_duration", "sm__ops_path_tensor_src_bf16_dst_fp32", path]
    found = install_ncu(tmp_path / "bin", GOOD, listed=listed)
    collected = collect("ncu", ["p"], architecture="10.0", options=options(found))
    assert f"{path}.sum" in collected.metrics
    assert collected.profile.kernels["flop/fp8-tensor"].sum() == 30


def test_later_runs_that_fail_lose_nothing(tmp_path: Path) -> None:
    body = WRITE_TABLE + (
        "if metrics[0].startswith('lts'):\n    os.kill(os.getpid(), signal.SIGKILL)\nwrite(table())\n"
    )
    collected = count(install_ncu(tmp_path / "bin", body), metrics_per_run=1)
    assert collected.metrics == ("gpu__time_duration.sum", "dram__bytes.sum")
    assert collected.profile.kernels["byte/dram"].sum() == 30
    assert any("killed" in note and "kept" in note for note in collected.notes)
    assert collected.not_collected["lts__t_bytes.sum"] == "ncu ended before"


def interrupt_when(path: Path) -> threading.Thread:
    def wait() -> None:
        for _ in range(200):
            if path.exists():
                os.kill(os.getpid(), signal.SIGINT)
                return
            threading.Event().wait(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_interruption_keeps_what_was_counted(tmp_path: Path) -> None:
    body = WRITE_TABLE + (
        "def stop(*_):\n    write(table(('a',)))\n    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "open(here + '/ready', 'w').close()\ntime.sleep(30)\n"
    )
    found = install_ncu(tmp_path / "bin", body)
    thread = interrupt_when(found / "ready")
    collected = count(found)
    thread.join()
    assert collected.interrupted
    assert collected.profile.kernels["calls"].sum() == 1
    assert any("interrupted" in note for note in collected.notes)


def test_an_interruption_with_nothing_counted_is_an_interruption(tmp_path: Path) -> None:
    body = "open(here + '/ready', 'w').close()\ntime.sleep(30)\n"
    found = install_ncu(tmp_path / "bin", body)
    thread = interrupt_when(found / "ready")
    with pytest.raises(KeyboardInterrupt):
        count(found, folder=tmp_path / "kept")
    thread.join()


def test_a_time_limit(tmp_path: Path) -> None:
    body = WRITE_TABLE + "write('x' * 4096)\ntime.sleep(30)\n"
    found = install_ncu(tmp_path / "bin", body)
    with pytest.raises(InputError, match="stopped at its time limit"):
        count(found, timeout_s=0.3, folder=tmp_path / "one")


def test_counters_of_an_earlier_run_are_not_mixed(tmp_path: Path) -> None:
    found = install_ncu(tmp_path / "bin", GOOD)
    count(found, folder=tmp_path / "kept")
    with pytest.raises(UsageError, match="counters of an earlier run"):
        count(found, folder=tmp_path / "kept")


def test_nothing_tells_the_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = install_ncu(tmp_path / "bin", GOOD)
    monkeypatch.setenv("PATH", str(found))
    with pytest.raises(UsageError, match="name the machine"):
        collect("ncu", ["p"], options=options(found))


def test_wrong_calls() -> None:
    with pytest.raises(UsageError, match="no profiler is called 'vtune'"):
        collect("vtune", ["p"])
    with pytest.raises(UsageError, match="no program is named"):
        collect("ncu", [])


def test_progress_is_told_kernel_by_kernel(tmp_path: Path) -> None:
    body = WRITE_TABLE + (
        "write('==PROF== Profiling \"gemm\" - 0: 0%....100% - 3 passes\\n')\ntime.sleep(0.4)\n"
        "write('==PROF== Profiling \"gemm\" - 0: 0%....100% - 3 passes\\n' + table())\n"
    )
    said: list[tuple[str, float]] = []
    found = install_ncu(tmp_path / "bin", body)
    count(found, expected_kernels=4, progress=lambda what, share: said.append((what, share)))
    assert ("kernel 1: gemm", 0.25) in said
    assert all(0 <= share <= 1 for _, share in said)
