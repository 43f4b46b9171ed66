"""What a user may name: archives, folders, links, damage, bombs."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from timeroof.core.errors import DamagedError, InputError, UsageError, as_notes
from timeroof.read import formats
from timeroof.read.formats import Format, format_named, sniffed
from timeroof.read.load import read_files
from timeroof.read.open import folder_in, open_input

TABLE = b"name,time_s\ngemm,0.5\n"


def test_every_wrapping_comes_off(tmp_path: Path) -> None:
    once = gzip.compress(TABLE)
    for index, data in enumerate(
        (TABLE, once, gzip.compress(once), lzma.compress(TABLE), zstandard.compress(TABLE))
    ):
        path = tmp_path / str(index)
        path.write_bytes(data)
        assert open_input(path).only.read() == TABLE
        assert read_files([path]).kernels["time_s"].to_list() == [0.5]


def test_bytes_behind_gzip_data_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "padded.csv.gz"
    for tail in (b"\0" * 512, b"signature", b"\x1f"):
        path.write_bytes(gzip.compress(TABLE[:12]) + gzip.compress(TABLE[12:]) + tail)
        assert read_files([path]).kernels["time_s"].to_list() == [0.5]


def test_gzip_that_breaks_off_before_anything_is_known_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    text = b'{"other": [' + b", ".join(b"%d" % (i * i) for i in range(90_000)) + b"]}"
    path.write_bytes(gzip.compress(text)[:-2000])
    with pytest.raises(InputError, match="is damaged"):
        read_files([path])


def test_an_archive_in_gzip_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TABLE)
    path = tmp_path / "x.tgz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "a", "run/a")
    found = open_input(path)
    assert [e.name for e in found.entries] == [f"{path}!/run/a"]
    assert read_files([path]).source.files[0].name == "x.tgz"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_files([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="no file is named"):
        read_files([])


def test_empty_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        read_files([path])
    with pytest.raises(InputError, match="holds no file"):
        read_files([tmp_path])
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(InputError, match="is empty"):
        read_files([path])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.compress])
def test_cut_archives_are_named(tmp_path: Path, pack: object) -> None:
    data = pack(b"name,time_s\n" + b"gemm,0.5\n" * 50_000)  # type: ignore[operator]
    path = tmp_path / "x"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError):
        read_files([path])


def test_a_bomb_ends_at_the_limit_with_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", 9) as stream:
        stream.write(b"name,time_s\n")
        for _ in range(64):
            stream.write(b"a" * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"more than 8000000 bytes.*--max-size"):
            read_files([path], max_bytes=8_000_000)
        assert tracemalloc.get_traced_memory()[1] < 64e6
    finally:
        tracemalloc.stop()


def test_a_loop_of_links_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.csv").write_bytes(TABLE)
    (tmp_path / "run" / "loop").symlink_to(tmp_path / "run", target_is_directory=True)
    (tmp_path / "run" / "self").symlink_to(tmp_path / "run" / "self")
    assert len(open_input(tmp_path / "run").entries) == 1
    with pytest.raises(InputError, match="cannot be read"):
        open_input(tmp_path / "run" / "self")


def test_an_encrypted_or_broken_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", TABLE)
    data = bytearray(path.read_bytes())
    # The flag "encrypted" in both headers of the member.
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be unpacked"):
        read_files([path])
    path.write_bytes(b"PK\x03\x04" + b"\0" * 100)
    with pytest.raises(InputError, match="damaged"):
        read_files([path])


def test_folders_are_seen_from_their_input(tmp_path: Path) -> None:
    for name in ("fw", "bw"):
        (tmp_path / "run" / name).mkdir(parents=True)
        (tmp_path / "run" / name / "x").write_bytes(TABLE)
    found = open_input(tmp_path / "run")
    assert [folder_in(found, e) for e in found.entries] == ["run/bw", "run/fw"]
    alone = open_input(tmp_path / "run" / "fw" / "x")
    assert folder_in(alone, alone.only) == ""


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.compress])
def test_damage_is_an_error_of_its_own(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = pack(bytes(range(256)) * 4096)
    path = tmp_path / "x"
    path.write_bytes(data[:24] + b"\xff" * 4096)
    with pytest.raises(DamagedError):
        open_input(path).only.read()


def test_a_sniff_that_stumbles_shows_where_when_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumble(_self: object, _found: object) -> bool:
        raise RuntimeError("stumbled here")

    path = tmp_path / "x"
    path.write_bytes(TABLE)
    chosen = format_named("tidy-csv")
    monkeypatch.setattr(type(chosen), "sniff", stumble)
    assert sniffed(open_input(path)) is not chosen
    assert "stumbled here" not in capsys.readouterr().err
    monkeypatch.setenv("TIMEROOF_DEBUG", "1")
    assert sniffed(open_input(path)) is not chosen
    assert "stumbled here" in capsys.readouterr().err


def test_a_reader_that_does_not_import_leaves_the_file_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(TABLE)
    broken = Format("missing", "no reader", "missing_reader", lambda _start: True)
    monkeypatch.setattr(formats, "LISTED", (broken, *formats.LISTED))
    monkeypatch.setenv("TIMEROOF_DEBUG", "1")
    found = open_input(path)
    assert sniffed(found) is format_named("tidy-csv")
    assert "missing_reader failed" in capsys.readouterr().err
    assert [(note.code, note.level) for note in as_notes(found.notes)] == [
        ("reader-failed", "warning")
    ]


def test_a_refusal_names_the_readers_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"no file of a profiler")
    broken = Format("missing", "no reader", "missing_reader", lambda _start: True)
    monkeypatch.setattr(formats, "LISTED", (broken, *formats.LISTED))
    with pytest.raises(InputError, match="missing_reader failed"):
        read_files([path])
