"""Driving rocprofv3: groups of counters in runs of their own, split where the chip cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.counters.standin import calls, install, options
from timeroof.core.errors import InputError, UsageError
from timeroof.counters import Collected, collect

_ASK = """
if args == ["--version"]:
    sys.exit(print("    version: 1.1.0"))
if args == ["--list-avail"]:
    sys.exit(1)
note()
metrics = args[args.index("--pmc") + 1 : args.index("--kernel-trace")]
folder = value("-d")
"""
# Two dispatches of k; every counter is 100 per dispatch.
_ANSWER = """
os.makedirs(folder)
trace = ["Kind,Agent_Id,Kernel_Name,Correlation_Id,Dispatch_Id,Start_Timestamp,End_Timestamp,"
         "Grid_Size_X,Grid_Size_Y,Grid_Size_Z"]
counts = ["Dispatch_Id,Agent_Id,Process_Id,Grid_Size,Kernel_Name,Counter_Name,Counter_Value,"
          "Start_Timestamp,End_Timestamp"]
for n in (1, 2):
    trace.append(f"KERNEL_DISPATCH,1,k,{n},{n},{n * 1000},{n * 1000 + 500},64,1,1")
    for m in metrics:
        counts.append(f"{n},1,7,64,k,{m},100,{n * 1000},{n * 1000 + 500}")
for name, lines in (("kernel_trace", trace), ("counter_collection", counts)):
    with open(f"{folder}/timeroof_7_{name}.csv", "w") as out:
        out.write("\\n".join(lines) + "\\n")
"""


def count(place: Path, architecture: str = "gfx942", **more: object) -> Collected:
    told = options(place, **more)
    return collect("rocprofv3", ["./p"], architecture=architecture, options=told)


def test_three_passes_of_an_mi300(tmp_path: Path) -> None:
    found = install(tmp_path / "bin", "rocprofv3", _ASK + _ANSWER)
    collected = count(found, region="profiler")
    lines = calls(found)
    assert len(lines) == 3
    for line in lines:
        assert line[line.index("--output-format") + 1] == "csv"
        assert "--selected-regions" in line
        assert line[-2:] == ["--", "./p"]
    (row,) = collected.profile.kernels.to_dicts()
    assert (row["name"], row["calls"]) == ("k", 2)
    assert row["time_s"] == pytest.approx(1e-6)
    assert row["flop/fp32"] == 2 * 100 * (64 * 5 + 512)
    assert row["flop/bf16-tensor"] == 2 * 100 * 512
    assert row["byte/l2"] == 2 * 100 * (128 + 3 * 64)
    assert row["origin.flops"] == "measured"
    assert not collected.not_collected


def test_a_group_that_is_too_large_is_split(tmp_path: Path) -> None:
    body = _ASK + (
        "if len(metrics) > 9:\n"
        "    sys.exit('error code 38: Request exceeds the capabilities of the hardware to collect')\n"
    )
    found = install(tmp_path / "bin", "rocprofv3", body + _ANSWER)
    collected = count(found)
    assert len(collected.metrics) == len(set(collected.metrics))
    assert len(calls(found)) > 3
    assert collected.profile.kernels["byte/dram"].null_count() == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "sys.exit('Unable to open /dev/kfd read-write: Permission denied')",
            "groups render and video",
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed"),
        ("sys.exit('No space left on device')", "disk full"),
        ("", "code 0 and no result"),
    ],
)
def test_troubles_are_one_sentence(tmp_path: Path, body: str, said: str) -> None:
    found = install(tmp_path / "bin", "rocprofv3", _ASK + body)
    with pytest.raises((InputError, UsageError), match=said):
        count(found, folder=tmp_path / "kept")


def test_a_pass_that_fails_keeps_the_earlier_ones(tmp_path: Path) -> None:
    body = _ASK + "if 'pass_2' in folder:\n    os.kill(os.getpid(), signal.SIGKILL)\n" + _ANSWER
    collected = count(install(tmp_path / "bin", "rocprofv3", body))
    assert "SQ_INSTS_VALU_ADD_F32" in collected.metrics
    assert collected.not_collected["SQ_INSTS_VALU_FMA_F64"] == "rocprofv3 ended before"
    assert any("kept" in note for note in collected.notes)
    assert collected.profile.kernels["flop/fp16"].null_count() == 1


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rocprofv3 is not on PATH; install ROCm"):
        count(tmp_path)
