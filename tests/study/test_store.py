"""The store: one row per case whatever happens, and clear words when the file is in trouble."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from timeroof.core.errors import InputError, SchemaError, UsageError
from timeroof.study.case import Case, Result
from timeroof.study.store import STORE_SCHEMA, Kept, Store, set_aside


def kept(number: int, **changes: object) -> Kept:
    case = Case(
        kernel="gemm",
        params={"m": number, "mode": "x"},
        pass_name="forward",
        threads=2,
        cache="cold",
    )
    values: dict[str, object] = {
        "case": case, "status": "done", "samples_s": [1.0, 2.0, 3.0], "launches": 2.0,
        "amounts": {"flop/fp32": 8.0, "byte/dram": None}, "contraction_flops": 8.0,
        "origins": {"time": "measured"}, "labels": {"implementation": "a'b\"c\n"}, "load": 0.25,
        "created": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    result = Result(**(values | changes))  # type: ignore[arg-type]
    return Kept(
        case_key=f"key{number}", result=result, machine="toy", software="torch 1",
    )  # fmt: skip


def integrity(path: Path) -> str:
    with sqlite3.connect(path) as file:
        return str(file.execute("PRAGMA integrity_check").fetchone()[0])


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.sqlite"
    failed = kept(
        2,
        status="failed",
        error="no",
        samples_s=[],
        launches=None,
        amounts={},
        contraction_flops=None,
    )
    with Store(path) as store:
        for one in (kept(1), failed):
            store.keep(one)
    with Store(path) as store:
        assert store.read() == [kept(1), failed]
        assert store.read(["key2", "nothing", "key1"]) == [failed, kept(1)]
        assert store.finished() == {"key1": "done", "key2": "failed"}
    assert integrity(path) == "ok"
    with sqlite3.connect(path) as file:
        assert file.execute(
            "SELECT time_s, pass FROM cases WHERE case_key = 'key1'"
        ).fetchall() == [(2.0, "forward")]
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_case_that_is_measured_again_takes_the_old_one_s_place(tmp_path: Path) -> None:
    with Store(tmp_path / "a.sqlite") as store:
        store.keep(kept(1, status="failed", error="no"))
        store.keep(kept(1))
        assert store.finished() == {"key1": "done"}


def test_a_full_disk_is_told_and_earlier_cases_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        store.keep(kept(1))
        store._sql.execute(
            f"PRAGMA max_page_count = {store._sql.execute('PRAGMA page_count').fetchone()[0]}"
        )
        big = kept(2, labels={"x": "y" * 100_000})
        with pytest.raises(
            InputError,
            match=r"a\.sqlite: the store cannot be used \(database or disk is full\); make room and continue with --resume",
        ):
            store.keep(big)
        assert store.finished() == {"key1": "done"}
    assert integrity(path) == "ok"


FULL = """
import resource, signal, sys
from pathlib import Path
from timeroof.core.errors import InputError
from timeroof.study.store import Store
sys.path.insert(0, {tests!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from tests.study.test_store import kept
store = Store(Path({path!r}))
store.keep(kept(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    for number in range(2, 100):
        store.keep(kept(number, labels={{"x": "y" * 20_000}}))
except InputError as error:
    print(len(store.finished()), error.message)
"""


def test_a_write_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(tests=root, path=str(path))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, _, message = done.stdout.partition(" ")
    assert "the store cannot be used" in message
    assert "finished cases are kept" in message
    assert integrity(path) == "ok"
    with Store(path) as store:
        assert len(store.finished()) == int(count) >= 1


def test_a_folder_that_cannot_be_written_to_is_told() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc to try")
    with pytest.raises(InputError, match="check that the folder exists and may be written to"):
        Store(Path("/proc/study.sqlite"))
    with pytest.raises(InputError, match="check that the folder exists and may be written to"):
        Store(Path("/proc/nothing/study.sqlite"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_leaves_the_cases_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        store.keep(kept(1))
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(InputError, match="may be written to"):
            Store(path)
    finally:
        tmp_path.chmod(0o755)
        path.chmod(0o644)
    with Store(path) as store:
        assert store.finished() == {"key1": "done"}


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to have a header " * 40, encoding="utf-8")
    before = text.read_bytes()
    with pytest.raises(InputError, match="name another file with --db"):
        Store(text)
    assert text.read_bytes() == before
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (x)")
    with pytest.raises(InputError, match="no store of a study"):
        Store(other)
    with sqlite3.connect(other) as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


def test_a_damaged_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        for number in range(50):
            store.keep(kept(number, labels={"x": "y" * 5000}))
    data = bytearray(path.read_bytes())
    data[4096 : len(data) - 4096] = os.urandom(len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(InputError, match="the store is damaged"), Store(path) as store:
        store.read()


def test_fresh_sets_a_damaged_store_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        for number in range(50):
            store.keep(kept(number, labels={"x": "y" * 5000}))
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    assert set_aside(path) == tmp_path / "a.1.sqlite"
    assert not path.exists()
    assert (tmp_path / "a.1.sqlite").read_bytes() == bytes(data)


def test_fresh_sets_a_store_of_another_version_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        store._sql.execute("UPDATE meta SET value = 'timeroof.study/99'")
    assert set_aside(path) == tmp_path / "a.1.sqlite"


@pytest.mark.parametrize("table", ["mine (x)", "meta (key, value)"])
def test_fresh_leaves_another_programs_file_where_it_is(tmp_path: Path, table: str) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as file:
        file.execute(f"CREATE TABLE {table}")
    before = path.read_bytes()
    with pytest.raises(InputError, match="no store of a study, and is left as it is"):
        set_aside(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["other.sqlite"]


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        store.keep(kept(1))
        store._sql.execute("UPDATE meta SET value = 'timeroof.study/99'")
    with pytest.raises(SchemaError, match=r"newer than 'timeroof\.study/1'"):
        Store(path)
    assert STORE_SCHEMA == "timeroof.study/1"


def test_fresh_leaves_a_store_that_another_process_has_open(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    script = (
        "import sys; from pathlib import Path; from timeroof.study.store import Store\n"
        "store = Store(Path(sys.argv[1])); store.finished(); print(flush=True); input()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(UsageError, match="another process is at work on"):
            set_aside(path)
        assert path.exists()
    finally:
        child.communicate(b"\n")
    assert set_aside(path) == tmp_path / "a.1.sqlite"
