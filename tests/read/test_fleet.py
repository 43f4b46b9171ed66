"""Many files of one run: read by workers that may die, kept, merged without holding all rows."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import polars as pl
import pytest

from timeroof.api.reports import load
from timeroof.core import engines
from timeroof.core.engines import Here, Pool, slurm_jobs, workers_for
from timeroof.core.errors import InputError, UsageError
from timeroof.core.profile import Profile
from timeroof.model.fleet import sum_in_any_order
from timeroof.read import fleet, reduced
from timeroof.read.fleet import Fleet
from timeroof.read.load import read_files
from timeroof.read.ranks import SIDE_BY_SIDE

MANY = SIDE_BY_SIDE + 4


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write_ranks(folder: Path, count: int, *, slow: int | None = None) -> Path:
    """Tables of ranks: `gemm` everywhere, `relu` on even ones; one rank may be slower."""
    folder.mkdir(exist_ok=True)
    for rank in range(count):
        factor = 3 if rank == slow else 1
        rows = [f"gemm,{(1 + rank / 1000) * factor},{rank},1e9,2"]
        if rank % 2 == 0:
            rows.append(f"relu,0.5,{rank},,1")
        text = "\n".join(["name,time_s,rank,flops_fp32,calls", *rows])
        (folder / f"rank{rank:04d}.csv").write_text(text + "\n")
    return folder


EMPTY_ZIP = b"PK\5\6" + bytes(18)


def by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "WORTH_BYTES", 0)
    monkeypatch.setattr(fleet, "workers_for", lambda *_: 2)


def test_rows_of_many_ranks_are_summed_and_say_who_is_slowest(tmp_path: Path) -> None:
    report = load(write_ranks(tmp_path / "run", MANY, slow=7))
    rows = {row["name"]: row for row in report.rows.iter_rows(named=True)}
    gemm, relu = rows["gemm"], rows["relu"]
    assert len(rows) == report.rows.height == 2
    assert (gemm["rank"], gemm["ranks"], gemm["slowest_rank"]) == (None, MANY, 7)
    assert gemm["rank_max_s"] == pytest.approx(3 * 1.007)
    assert gemm["rank_median_s"] == pytest.approx(1.01, abs=0.002)
    assert gemm["calls"] == 2 * MANY
    assert gemm["flop/fp32"] == 1e9 * MANY
    assert (relu["ranks"], relu["flop/fp32"]) == (MANY // 2, None)


def test_totals_are_those_of_a_mean_rank_however_rows_are_kept(tmp_path: Path) -> None:
    report = load(write_ranks(tmp_path / "run", MANY))
    assert report.totals.by_limiter["unknown"] * MANY == pytest.approx(report.rows["time_s"].sum())
    assert report.totals.launches is not None
    assert report.totals.launches * MANY == pytest.approx(report.rows["launches"].sum())
    assert len(report.profile.ranks) == MANY


def test_few_ranks_keep_their_rows_with_the_spread_over_ranks(tmp_path: Path) -> None:
    rows = load(write_ranks(tmp_path / "run", 4)).rows.filter(pl.col("name") == "gemm")
    assert sorted(rows["rank"].to_list()) == [0, 1, 2, 3]
    assert set(rows["slowest_rank"].to_list()) == {3}
    assert set(rows["ranks"].to_list()) == {4}


@pytest.mark.parametrize("count", [4, MANY])
def test_workers_read_what_one_process_reads(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_ranks(tmp_path / "run", count)
    alone = load(folder).rows
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "another"))
    by_workers(monkeypatch)
    apart = load(folder).rows
    assert apart.equals(alone)


def test_sums_over_ranks_are_the_same_in_whatever_order_they_are_added() -> None:
    """Threads, workers and other machines add up in another order each time."""
    chance = random.Random(7)
    values = {
        "time_s": [chance.lognormvariate(-9, 4) for _ in range(4000)],
        "calls": [chance.randint(1, 900) / 3 for _ in range(4000)],
        "flop/fp32": [chance.lognormvariate(20, 5) for _ in range(4000)],
    }
    table = pl.DataFrame(values)
    for column, numbers in values.items():
        summed = {
            table.sample(fraction=1.0, shuffle=True, seed=seed)
            .select(sum_in_any_order(column))
            .item()
            for seed in range(12)
        }
        assert len(summed) == 1
        assert summed.pop() == pytest.approx(math.fsum(numbers), rel=1e-12)


def test_of_equally_slow_ranks_the_lowest_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(MANY):
        text = f"name,time_s,rank\ngemm,{0.5 if rank in (3, 9) else 0.25},{rank}\n"
        (folder / f"rank{MANY - rank:04d}.csv").write_text(text)
    assert load(folder).rows["slowest_rank"].to_list() == [3]


def test_a_second_reading_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    first = load(folder).rows
    monkeypatch.setattr(fleet, "reduce_rank", lambda _order: pytest.fail("was read again"))
    assert load(folder).rows.equals(first)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    load(folder)
    (folder / "rank0003.csv").write_text("name,time_s,rank,flops_fp32,calls\ngemm,9,3,1e9,2\n")
    rows = load(folder).rows
    assert rows.filter(pl.col("name") == "gemm")["rank_max_s"].item() == 9


@pytest.mark.parametrize("count", [4, MANY])
def test_a_file_that_cannot_be_read_is_a_note_and_a_missing_rank(
    count: int, tmp_path: Path
) -> None:
    folder = write_ranks(tmp_path / "run", count)
    (folder / "rank0001.csv").write_text("name,time_s,rank\ngemm,soon,1\n")
    report = load(folder)
    left_out = [str(n) for n in report.notes if n.code == "files-left-out"]
    assert len(left_out) == 1
    assert f"1 of {count} files could not be read and are left out: rank0001.csv" in left_out[0]
    assert [r.rank for r in report.profile.ranks] == [r for r in range(count) if r != 1]


def write_traces(folder: Path, count: int) -> Path:
    folder.mkdir(exist_ok=True)
    for rank in range(count):
        events = [
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10 * i, "dur": 8, "args": {}}
            | {"pid": 0, "tid": 7}
            for i in range(50)
        ]
        trace = {
            "schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": count},
            "traceEvents": events,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        }  # fmt: skip
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return folder


def test_a_cut_trace_is_named_and_takes_nothing_from_what_the_others_say(tmp_path: Path) -> None:
    folder = write_traces(tmp_path / "run", 3)
    cut = folder / "rank1.json"
    cut.write_text(cut.read_text().partition('"deviceProperties"')[0][:-400])
    report = load(folder)
    assert report.profile.device == "NVIDIA H100 80GB HBM3"
    (note,) = [n for n in report.notes if "cut off" in n]
    assert note.startswith("rank1.json: ")


def test_where_no_file_can_be_read_the_first_says_why(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"r{rank}.csv").write_text(f"name,time_s,rank\ngemm,soon,{rank}\n")
    with pytest.raises(InputError, match=r"r0.csv: column 'time_s' has 'soon'"):
        load([tmp_path / "r0.csv", tmp_path / "r1.csv"])


def test_a_rank_that_two_files_are_of_is_named(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    (folder / "rank0005.csv").write_text("name,time_s,rank,flops_fp32,calls\ngemm,1,4,1e9,2\n")
    with pytest.raises(InputError, match=r"rank 4 \(rank0004.csv, rank0005.csv\)"):
        load(folder)


@pytest.mark.parametrize("packed", [False, True])
def test_an_empty_rank_is_named_and_other_empty_files_are_not(tmp_path: Path, packed: bool) -> None:
    folder = write_ranks(tmp_path / "run", 4)
    lost = sorted(folder.glob("*2*"))[0]
    lost.write_bytes(b"")
    (folder / "_SUCCESS").write_bytes(b"")
    if packed:
        with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
            for path in sorted(folder.iterdir()):
                archive.write(path, path.name)
        folder = tmp_path / "run.zip"
    notes = " ".join(load(folder).notes)
    assert f"{lost.name} is empty." in notes
    assert "_SUCCESS" not in notes


@pytest.mark.parametrize("count", [4, MANY])
def test_copies_of_a_rank_are_left_out_and_named(tmp_path: Path, count: int) -> None:
    folder = write_ranks(tmp_path / "run", count)
    before = load(folder)
    original = sorted(folder.iterdir())[1]
    (folder / "zz_backup.csv").write_bytes(original.read_bytes())
    after = load(folder)
    assert after.totals.kernel_s == before.totals.kernel_s
    assert after.profile.ranks == before.profile.ranks
    told = f"byte for byte: zz_backup.csv (of {original.name})."
    assert any(told in note for note in after.notes)
    assert not any("copies" in note for note in before.notes)


def test_an_archive_of_ranks_has_no_copies(tmp_path: Path) -> None:
    """Its members have one digest: the archive's."""
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for name in "abc":
            archive.writestr(f"{name}.csv", f"name,time_s\n{name},1\n")
    assert len(load(tmp_path / "run.zip").profile.ranks) == 3


def test_a_rank_that_was_cut_before_its_kernels_is_left_out(tmp_path: Path) -> None:
    """Host time of its ops is not work of the device: TR401 took it for a slow rank."""

    def event(rank: int, cat: str, name: str, ts: float, dur: float) -> dict[str, object]:
        args = {"stream": 7, "device": 0} if cat == "kernel" else {}
        tid = 7 if cat == "kernel" else 1
        return {"ph": "X", "cat": cat, "name": name, "pid": rank, "tid": tid, "ts": ts, "dur": dur,
                "args": args}  # fmt: skip

    for rank in range(3):
        kernels = [event(rank, "kernel", "gemm", 110.0, 50.0)] if rank != 2 else []
        trace = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank, "world_size": 3},
            "deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-32GB"}],
            "traceEvents": [event(rank, "cpu_op", "aten::mm", 100.0, 5000.0), *kernels],
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    report = load(tmp_path)
    assert [r.rank for r in report.profile.ranks] == [0, 1]
    assert any("rank2.json has no kernels as the other ranks do" in note for note in report.notes)


def test_one_rank_of_many_is_shown_when_asked_for(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", MANY, slow=7)
    report = load(folder, fleet=Fleet(rank=7))
    assert report.rows["time_s"].max() == pytest.approx(3 * 1.007)
    assert set(report.rows["rank"].to_list()) == {7}
    with pytest.raises(InputError, match=r"no rank 99.*choose from 0 to 19"):
        load(folder, fleet=Fleet(rank=99))


def test_a_rank_that_is_asked_for_and_doubled_is_refused(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", 4)
    (folder / "other.csv").write_text("name,time_s,rank\ngemm,1,2\n")
    with pytest.raises(InputError, match=r"more than one says it is rank 2 \(.*csv, .*csv\)"):
        load(folder, fleet=Fleet(rank=2))
    assert set(load(folder, fleet=Fleet(rank=3)).rows["rank"].to_list()) == {3}


@pytest.mark.parametrize(
    ("rank", "words"),
    [(3, "1 of at least 4 ranks have no file: 2."), (10**15, ": 2, 3, 4, 5, 6, 7, 8, 9 and ")],
)
def test_a_gap_in_the_ranks_is_a_note_where_no_file_says_how_many_there_are(
    rank: int, words: str, tmp_path: Path
) -> None:
    folder = write_ranks(tmp_path / "run", 2)
    (folder / "last.csv").write_text(f"name,time_s,rank\ngemm,1,{rank}\n")
    (note,) = [n for n in load(folder).notes if n.code == "missing-ranks"]
    assert words in note


def test_nothing_can_be_kept_and_the_report_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file, not a folder")
    report = load(write_ranks(tmp_path / "run", MANY))
    assert report.rows.height == 2
    assert [n.level for n in report.notes if n.code == "nothing-kept"] == ["warning"]


def write_traces_of(folder: Path, names: dict[str, int | None], world: int = 0) -> Path:
    """Small traces under names of their own; what a file says of its rank, and of how many."""
    write_traces(folder, 1)
    text = (folder / "rank0.json").read_text()
    (folder / "rank0.json").unlink()
    for name, rank in names.items():
        trace = json.loads(text)
        del trace["distributedInfo"]
        trace["file"] = f"{name} of {world}"  # no two ranks have the same bytes
        if rank is not None:
            trace["distributedInfo"] = {"rank": rank, "world_size": world or len(names)}
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(trace))
    return folder


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ({f"rank{i}.json": None for i in (0, 1, 2, 10, 11)}, [0, 1, 2, 10, 11]),
        ({f"rank_{i}/trace.json": None for i in (3, 12)}, [3, 12]),
        ({"a.json": 1, "trace_rank-0.json": None}, [0, 1]),
        # Two computers count from 0, or a name is another group's: names tell nothing then.
        ({"a/rank0.json": None, "a/rank1.json": None, "b/rank0.json": None}, [0, 1, 2]),
        ({"rank0.json": 4, "rank1.json": None}, [0, 4]),
        ({"frank1.json": None, "x.json": 0}, [0, 1]),
    ],
)
def test_a_file_that_does_not_say_its_rank_has_that_of_its_name(
    names: dict[str, int | None], ranks: list[int], tmp_path: Path
) -> None:
    report = load(write_traces_of(tmp_path / "run", names))
    assert sorted(rank.rank for rank in report.profile.ranks) == ranks


def test_a_rank_in_names_alone_can_be_asked_for_and_missed(tmp_path: Path) -> None:
    folder = write_traces_of(tmp_path / "run", {f"rank{i}.json": None for i in (0, 1, 3)})
    assert set(load(folder, fleet=Fleet(rank=3)).rows["rank"].to_list()) == {3}
    assert "1 of at least 4 ranks have no file: 2." in load(folder).notes


@pytest.mark.parametrize("names", ["ab", ("one/rank0", "two/rank0")])
def test_several_runs_are_named_with_their_files(names: list[str], tmp_path: Path) -> None:
    a, b = (f"{name}.json" for name in names)
    write_traces_of(tmp_path / "run", {a: 0}, 8)
    write_traces_of(tmp_path / "run", {b: 1}, 16)
    with pytest.raises(InputError, match=rf"numbers of ranks \(16: {b}; 8: {a}\)"):
        load(tmp_path / "run")
    write_traces_of(tmp_path / "run", {a: 0, b: 0})
    with pytest.raises(InputError, match=rf"says it is rank 0 \({a}, {b}\)"):
        load(tmp_path / "run")


def test_files_of_a_folder_that_are_not_read_are_named_with_a_reason(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "run", 3)
    (folder / "rank3.csv.gz").write_bytes(gzip.compress(b"name,time_s,rank\ng,1,3\n" * 99)[:40])
    (folder / "readme.txt").write_text("hello")
    (note,) = [n for n in load(folder).notes if n.code == "not-read"]
    assert "run/rank3.csv.gz is damaged (the compressed data end early)" in note
    assert "run/readme.txt is text, but of no profiler" in note


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    before = reduced.summary_of

    def changing(profile: Profile) -> reduced.Summary:
        (folder / "rank0003.csv").write_text("name,time_s,rank,flops_fp32,calls\ngemm,9,3,1e9,2\n")
        return before(profile)

    monkeypatch.setattr(reduced, "summary_of", changing)
    load(folder)
    monkeypatch.setattr(reduced, "summary_of", before)
    assert load(folder).rows["rank_max_s"].max() == 9.0


@pytest.mark.parametrize("damage", [b"", b"no", b"\0" * 5000])
def test_reduced_files_that_are_damaged_are_made_again(
    damage: bytes, home: Path, tmp_path: Path
) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    first = load(folder)
    for kept in list((home / "cache" / "reduced").iterdir())[::3]:
        kept.write_bytes(damage)
    assert load(folder).rows.equals(first.rows)


@pytest.mark.parametrize("suffix", [".parquet", ".troof", ".digest"])
@pytest.mark.parametrize("ranks", [4, MANY])
@pytest.mark.parametrize("what", ["another", "inside", "pipe", "folder"])
def test_reduced_files_whose_ends_look_right_are_made_again(
    what: str, ranks: int, suffix: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "WORTH_BYTES", 0)
    folder = write_ranks(tmp_path / "run", ranks)
    first = load(folder)
    kept = next(p for p in (home / "cache" / "reduced").iterdir() if p.suffix == suffix)
    data = bytearray(kept.read_bytes())
    kept.unlink()
    if what == "pipe":
        os.mkfifo(kept)
    elif what == "folder":
        kept.mkdir()
    elif what == "another":  # what some other table or archive ends with
        kept.write_bytes(b"PAR1" + b"\0" * 8 + b"PAR1" if suffix == ".parquet" else EMPTY_ZIP)
    else:
        data[4 : len(data) - 24] = b"\xff" * (len(data) - 28)
        kept.write_bytes(data)
    assert load(folder).rows.equals(first.rows)


# The engines


def double(number: int) -> int:
    return 2 * number


def die_once(order: tuple[str, int]) -> int:
    """Kill the worker the first time that this order comes."""
    folder, number = order
    seen = Path(folder) / str(number)
    if number == 2 and not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def always_die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    if number == 1:
        raise InputError("is bad", "x.json", "record it again")
    return number


@pytest.mark.parametrize("engine", [Here(), Pool(2)], ids=["here", "pool"])
def test_an_engine_answers_every_order(engine: engines.Engine) -> None:
    found = {a.index: a.value for a in engine.map(double, list(range(5)))}
    assert found == {0: 0, 1: 2, 2: 4, 3: 6, 4: 8}


@pytest.mark.parametrize("engine", [Here(), Pool(2)], ids=["here", "pool"])
def test_an_error_of_ours_comes_back_with_all_its_parts(engine: engines.Engine) -> None:
    answers = {a.index: a for a in engine.map(refuse, [0, 1])}
    failure = answers[1].failure
    assert failure is not None
    assert failure.error.message == "x.json: is bad; record it again"
    assert answers[0].value == 0


def test_a_killed_worker_costs_its_own_order_a_second_try_and_no_other(tmp_path: Path) -> None:
    orders = [(str(tmp_path), number) for number in range(6)]
    answers = list(Pool(2).map(die_once, orders))
    assert all(a.failure is None for a in answers)
    # The worker that did not die has answered all along.
    assert len({a.value for a in answers}) <= 3


def test_an_order_that_kills_every_worker_is_an_answer() -> None:
    answers = {a.index: a for a in Pool(2).map(always_die, [0, 1, 2])}
    assert answers[1].failure is not None
    assert "died 2 times" in answers[1].failure.what
    assert (answers[0].value, answers[2].value) == (0, 2)


def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from timeroof.core.engines import Pool\n"
        "from tests.read.test_fleet import told_and_asleep\n"
        "list(Pool(2).map(told_and_asleep, [sys.argv[2]] * 2))\n"
    )
    root = str(Path(__file__).parents[2])
    driver = subprocess.Popen([sys.executable, "-c", script, root, str(tmp_path)])
    pids = _told_pids(tmp_path, 2)
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 30
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlives its driver"
        time.sleep(0.05)


def told_and_asleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def _told_pids(folder: Path, count: int) -> list[int]:
    deadline = time.monotonic() + 60
    while len(found := [int(p.name) for p in folder.iterdir() if p.name.isdecimal()]) < count:
        assert time.monotonic() < deadline, "no worker started"
        time.sleep(0.05)
    return found


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_as_many_workers_as_memory_and_orders_allow() -> None:
    assert workers_for(1e6, 1) == 1
    assert workers_for(1e15, 64) == 1


def test_reading_one_file_imports_no_pool_and_no_dask(tmp_path: Path) -> None:
    path = write_ranks(tmp_path / "run", 1) / "rank0000.csv"
    code = (
        "import sys; from timeroof.api.reports import load; load(sys.argv[1]);"
        " print(sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'loky', 'dask', 'distributed', 'cloudpickle', 'multiprocessing'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes", "which is not NAME=VALUE"),
        ("nodes=two", "not a number of nodes"),
        ("nodes=0", "not a number of nodes"),
        ("cores=two", "not a number of cores"),
    ],
)
def test_slurm_settings_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        slurm_jobs(text)


def test_a_scheduler_and_slurm_together_are_refused() -> None:
    with pytest.raises(UsageError, match="both given"):
        Fleet(scheduler="tcp://localhost:1", slurm="nodes=1")


def test_an_interrupted_reading_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_ranks(tmp_path / "run", MANY)
    whole, read = fleet.reduce_rank, []

    def interrupted(order: fleet.Rank) -> object:
        if len(read) == 5:
            raise KeyboardInterrupt
        read.append(order.found.name)
        return whole(order)

    monkeypatch.setattr(fleet, "reduce_rank", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_files([folder])
    monkeypatch.setattr(
        fleet, "reduce_rank", lambda order: read.append(order.found.name) or whole(order)
    )
    read_files([folder])
    assert len(read) == len(set(read)) == MANY
