"""perf: values, the subtraction of repetitions, and the real one where it is installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.counters.standin import install, options
from timeroof.core.errors import InputError, UsageError
from timeroof.counters import Collected, CollectOptions, collect
from timeroof.counters.perf import parse

# A processor whose program counts 1000 of everything to start and 100 per repetition.
_STAND_IN = """
if args == ["--version"]:
    sys.exit(print("perf version 6.1.1"))
events = value("-e").split(",")
known = {known!r}
report = value("-o")
if report is None:
    name = events[0]
    if name not in known:
        sys.exit("event syntax error: '" + name + "'")
    print("1;;" + name + ";1;100.00;;", file=sys.stderr)
    sys.exit(0)
note()
times = int(os.environ["TIMEROOF_REPETITIONS"])
{more}
with open(report, "w") as out:
    out.write("# started on Sunday\\n\\n")
    for name in events:
        out.write(f"{{1000 + 100 * times}};;{{name}};99;{share};;\\n")
"""


def stand_in(place: Path, known: list[str], more: str = "", share: str = "100.00") -> Path:
    return install(place, "perf", _STAND_IN.format(known=known, more=more, share=share))


def count(place: Path, architecture: str, **more: object) -> Collected:
    return collect("perf", ["./p"], architecture=architecture, options=options(place, **more))


INTEL = [
    f"fp_arith_inst_retired.{w}_{p}"
    for p in ("single", "double")
    for w in ("scalar", "128b_packed", "256b_packed", "512b_packed")
]


def test_intel_counts_by_width(tmp_path: Path) -> None:
    found = stand_in(tmp_path / "bin", [*INTEL, "longest_lat_cache.miss"])
    collected = count(found, "GenuineIntel", subtract=True, rounds=2)
    (row,) = collected.profile.kernels.to_dicts()
    assert row["flop/fp32"] == 100 * (1 + 4 + 8 + 16)
    assert row["flop/fp64"] == 100 * (1 + 2 + 4 + 8)
    assert row["byte/dram"] == 100 * 64
    assert row["fault"] == 100
    assert (row["kind"], row["name"]) == ("unit", "timeroof")
    assert (row["origin.flops"], row["origin.bytes/dram"]) == ("measured", "inferred")
    # Two rounds of three groups, each with one and two repetitions; at most four at a time.
    assert len(collected.commands) == 12
    assert "flop/fp16" not in row


def test_a_width_that_is_not_counted_makes_the_sum_unknown(tmp_path: Path) -> None:
    found = stand_in(tmp_path / "bin", [e for e in INTEL if "256b_packed_single" not in e])
    (row,) = count(found, "Intel", rounds=1).profile.kernels.to_dicts()
    assert row["flop/fp32"] is None
    assert row["flop/fp64"] == 1100 * 15
    assert row["byte/dram"] is None


def test_a_core_without_avx512_misses_nothing(tmp_path: Path) -> None:
    found = stand_in(tmp_path / "bin", [e for e in INTEL if "512b" not in e])
    (row,) = count(found, "Intel", rounds=1).profile.kernels.to_dicts()
    assert row["flop/fp32"] == 1100 * 13


def test_zen_counts_retired_flops(tmp_path: Path) -> None:
    fills = ["ls_any_fills_from_sys.mem_io_local", "ls_any_fills_from_sys.mem_io_remote"]
    found = stand_in(tmp_path / "bin", ["fp_ret_sse_avx_ops.all", *fills])
    collected = count(found, "Zen 3", rounds=1)
    (row,) = collected.profile.kernels.to_dicts()
    assert (row["flop/fp32"], row["byte/dram"]) == (1100, 2 * 64 * 1100)
    assert row["origin.flops"] == "inferred"
    assert any("all precisions together" in note for note in collected.notes)
    assert row["name"] == "p"


def test_the_memory_controller_counts_the_whole_machine(tmp_path: Path) -> None:
    known = ["fp_ret_sse_avx_ops.all", "umc_cas_cmd.all", "LLC-load-misses"]
    found = stand_in(tmp_path / "bin", known)
    assert "umc_cas_cmd.all" not in count(found, "Zen 4", rounds=1).metrics
    whole = count(found, "Zen 4", rounds=1, system_wide=True)
    assert "umc_cas_cmd.all" in whole.metrics
    assert "-a" in whole.commands[0]


def test_counters_that_took_turns_are_estimates(tmp_path: Path) -> None:
    found = stand_in(tmp_path / "bin", ["LLC-load-misses", "fp_ret_sse_avx_ops.all"], share="50.0")
    collected = count(found, "Zen", rounds=1)
    assert collected.profile.kernels["origin.flops"].to_list() == ["inferred"]
    assert any("took turns" in note for note in collected.notes)


def test_fewer_in_two_repetitions_than_in_one_is_unknown(tmp_path: Path) -> None:
    found = stand_in(tmp_path / "bin", ["fp_ret_sse_avx_ops.all"], more="times = -times")
    collected = count(found, "Zen", subtract=True, rounds=1)
    assert collected.profile.kernels["flop/fp32"].to_list() == [None]
    assert any("Lost in noise" in note for note in collected.notes)


def test_permission(tmp_path: Path) -> None:
    body = _STAND_IN.format(known=[], more="", share="100").replace(
        'sys.exit("event syntax error', 'sys.exit("perf_event_paranoid setting is 3"); ("'
    )
    found = install(tmp_path / "bin", "perf", body)
    with pytest.raises(UsageError, match=r"sysctl kernel\.perf_event_paranoid=1"):
        count(found, "Zen")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("print('./p: Killed', file=sys.stderr)", "died under perf"),
        ("sys.exit(3)", "code 3"),
        ("os.kill(os.getpid(), 9)", "killed"),
        ("sys.exit(0)", "no result"),
    ],
)
def test_troubles(tmp_path: Path, more: str, said: str) -> None:
    found = stand_in(tmp_path / "bin", [], more=more)
    with pytest.raises(InputError, match=said):
        count(found, "Zen", folder=tmp_path / "kept")


def test_a_full_disk_that_perf_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    found = stand_in(tmp_path / "bin", [], more="sys.exit(0)")
    with pytest.raises(UsageError, match="perf found the disk full"):
        count(found, "Zen", folder=tmp_path / "kept")


def test_values_in_any_layout() -> None:
    values = parse(
        "# x\n\n0,51;msec;task-clock;507805;100.00;171,846;CPUs utilized\nbad\n1;;a;1;100;;\n2;;a;1;100;;"
    )
    assert values["task-clock"].count == pytest.approx(0.51e-3)
    assert values["a"].count == 3


REGION = (
    "import os; keep = [bytearray(8 << 20) for _ in range(int(os.environ['TIMEROOF_REPETITIONS']))]"
)


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_the_real_perf_subtracts_repetitions() -> None:
    try:
        collected = collect(
            "perf",
            [sys.executable, "-SE", "-c", REGION],
            options=CollectOptions(subtract=True, rounds=3),
        )
    except UsageError as error:
        pytest.skip(str(error))
    (row,) = collected.profile.kernels.to_dicts()
    # 8 MiB of fresh memory beyond the first repetition's, in pages of 4 KiB (fewer if larger).
    assert 0 < row["fault"] < 2048 * 1.1
    if not collected.metrics:
        assert any("neither FLOPs nor bytes" in note for note in collected.notes)
        assert row["flop/fp32"] is None
