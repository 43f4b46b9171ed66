"""Several files in one call: ranks, several profilers, forced formats, processes, progress."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import make_machine
from timeroof.core.errors import InputError, UsageError
from timeroof.core.profile import Profile, Source
from timeroof.core.run_file import SavedRun, save_run
from timeroof.read.formats import ReadOptions
from timeroof.read.load import read_files, read_run
from timeroof.read.ranks import merged_ranks

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"


def table(path: Path, *rows: str, header: str = "name,time_s,flops_fp32,bytes_dram") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def ranks(tmp_path: Path, count: int = 3) -> list[Path]:
    return [table(tmp_path / f"r{i}", f"gemm,{i + 1},10,{i}", "relu,1,2,3") for i in range(count)]


def test_files_of_one_format_are_ranks(tmp_path: Path) -> None:
    profile = read_files(ranks(tmp_path))
    assert sorted(profile.kernels["rank"].to_list()) == [0, 0, 1, 1, 2, 2]
    assert profile.kernels["time_s"].sum() == 1 + 2 + 3 + 3
    assert profile.kernels["id"].n_unique() == 6
    assert "3 files are taken as ranks of one run (0: r0, 1: r1, 2: r2)" in profile.notes[0]
    assert [f.name for f in profile.source.files] == ["r0", "r1", "r2"]


def test_a_folder_of_ranks_is_read_the_same(tmp_path: Path) -> None:
    named = read_files(ranks(tmp_path))
    assert read_files([tmp_path]).kernels.equals(named.kernels)


def test_absent_flops_of_a_rank_are_none_and_absent_bytes_unknown() -> None:
    source = Source(tool="t")
    one = Profile.of({"name": ["a"], "time_s": [1.0], "flop/fp32": [1.0]}, source)
    two = Profile.of(
        {"name": ["b"], "time_s": [1.0], "flop/fp16": [1.0], "byte/dram": [2.0]}, source
    )
    three = Profile.of({"name": ["c"], "time_s": [1.0]}, source)
    rows = {r["name"]: r for r in merged_ranks([one, two, three], list("xyz")).kernels.to_dicts()}
    assert (rows["a"]["flop/fp16"], rows["a"]["byte/dram"]) == (0.0, None)
    assert (rows["b"]["flop/fp32"], rows["b"]["byte/dram"]) == (0.0, 2.0)
    assert (rows["c"]["flop/fp32"], rows["c"]["flop/fp16"]) == (None, None)


def test_seconds_of_the_whole_are_a_mean_ranks() -> None:
    def rank(number: int, wall_s: float | None) -> Profile:
        timeline = pl.DataFrame(
            {"start_s": [0.0], "kernel": [0]}, schema_overrides={"kernel": pl.Int64}
        )
        return Profile.of(
            {"name": ["a"], "time_s": [1.0], "rank": [number]},
            Source(tool="t"),
            wall_s=wall_s,
            kernel_s=1.0,
            device="GPU",
            idle_by_cause={"launch": 0.5},
            timeline=timeline,
        )

    merged = merged_ranks([rank(4, 2.0), rank(2, 3.0)], ["a", "b"])
    assert (merged.wall_s, merged.kernel_s, merged.device) == (2.5, 1.0, "GPU")
    assert merged.idle_by_cause == {"launch": 0.5}
    assert sorted(merged.kernels["rank"].to_list()) == [2, 4]
    assert merged_ranks([rank(0, None), rank(1, 3.0)], ["a", "b"]).wall_s is None
    with pytest.raises(InputError, match="more than one says it is rank 4"):
        merged_ranks([rank(4, 2.0), rank(4, 3.0)], ["a", "b"])


def test_runs_of_several_devices_are_no_ranks(tmp_path: Path) -> None:
    header = "name,time_s,device"
    paths = [table(tmp_path / d, f"k,1,{d}", header=header) for d in ("A100", "H100")]
    with pytest.raises(InputError, match=r"several devices \(A100: .*; H100: "):
        read_files(paths)


def test_a_folder_of_several_profilers_is_refused(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "ncu_long.csv", tmp_path / "a")
    shutil.copy(GOLDEN / "nvprof_trace.csv", tmp_path / "b")
    with pytest.raises(InputError, match=r"several profilers \(ncu-csv: .*/a; nvprof-csv: .*/b\)"):
        read_files([tmp_path])


def test_unknown_files_in_a_folder_are_noted_and_named_ones_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "a", "k,1,1,1")
    readme = tmp_path / "README"
    readme.write_text("words\n")
    assert any("Not read" in n and "README" in n for n in read_files([tmp_path]).notes)
    with pytest.raises(InputError, match="README: is text"):
        read_files([path, readme])
    path.unlink()
    (tmp_path / "b").write_text("more words\n")
    with pytest.raises(InputError, match="no file of a profiler"):
        read_files([tmp_path])


def test_a_forced_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = table(tmp_path / "x", "k,1,1,1")
    assert read_files([path], format="tidy-csv").kernels.height == 1
    with pytest.raises(InputError, match="no table of nvprof"):
        read_files([path], format="nvprof-csv")
    with pytest.raises(UsageError, match=r"no format is called 'tidy'; use one of .*ncu-csv"):
        read_files([path], format="tidy")


def test_a_saved_run_brings_its_machine(tmp_path: Path) -> None:
    profile = read_files([table(tmp_path / "x", "k,1,1,1")])
    save_run(SavedRun(profile, make_machine()), tmp_path / "run")
    run = read_run([tmp_path / "run"], ReadOptions())
    assert run.machine is not None
    assert run.machine.name == "toy"
    assert run.profile.source == profile.source
