"""Archives cost what they hold: each is listed once, and one limit is over all nesting."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.read import open as opening
from timeroof.read.open import GzipStream, open_input


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


PACKED = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda members: tarred(members, "w:gz"),
    "tar.xz": lambda members: tarred(members, "w:xz"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_every_archive_is_listed_once_however_many_members_are_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {f"{i:03}.txt": f"content {i}".encode() for i in range(200)}
    path = tmp_path / f"a.{kind}"
    path.write_bytes(PACKED[kind](members))
    listed = []
    real = opening._Archive.__init__

    def counted(self: opening._Archive, stream: io.BufferedReader, is_zip: bool) -> None:
        listed.append(is_zip)
        real(self, stream, is_zip)

    monkeypatch.setattr(opening._Archive, "__init__", counted)
    found = open_input(path)
    assert {e.name.rpartition("/")[2]: e.read() for e in found.entries} == members
    assert len(listed) == 1


def test_an_archive_that_was_written_anew_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"x": b"one"}))
    assert open_input(path).only.read() == b"one"
    path.write_bytes(zipped({"x": b"two, longer"}))
    assert open_input(path).only.read() == b"two, longer"


def test_members_are_counted_over_all_nesting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MAX_FOLDER_FILES", 500)
    inner = zipped({f"{i}": b"x" for i in range(30)})
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({f"{i}.zip": inner for i in range(30)}))
    with pytest.raises(InputError, match="holds more than 500 files"):
        open_input(path)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_bytes_are_counted_over_all_nesting(tmp_path: Path, kind: str) -> None:
    inner = zipped({f"{i}": bytes(10_000) for i in range(10)})
    path = tmp_path / f"a.{kind}"
    path.write_bytes(PACKED[kind]({f"{i}.zip": inner for i in range(10)}))
    assert len(open_input(path, max_bytes=2_000_000).entries) == 100
    with pytest.raises(InputError, match="unpacks to more than 500000 bytes"):
        open_input(path, max_bytes=500_000)


def test_compressed_members_count_by_what_they_unpack_to(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "a.tar"
    path.write_bytes(tarred({f"{i}.gz": gzip.compress(bytes(100_000)) for i in range(5)}))
    found = open_input(path, max_bytes=300_000)
    with pytest.raises(InputError, match="unpacks to more than 300000 bytes"):
        [entry.read() for entry in found.entries]


@pytest.mark.parametrize("where", [30, 60, 90])
def test_a_damaged_directory_raises_nothing_but_an_input_error(tmp_path: Path, where: int) -> None:
    data = bytearray(zipped({f"member{i}": b"some content" for i in range(3)}))
    start = data.rindex(b"PK\x01\x02") - where
    for place in range(start, start + 20):
        data[place] ^= 0x9C
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(data))
    with suppress(InputError):
        [entry.read() for entry in open_input(path).entries]


@pytest.mark.parametrize("kind", [b"0", b"7", b"Z", b"5"])
@pytest.mark.parametrize("size", [-1, -512, -1024, -2048])
def test_a_tar_whose_sizes_lead_back_has_an_end(tmp_path: Path, size: int, kind: bytes) -> None:
    good = tarfile.TarInfo("a.json")
    good.size = 2
    wrong = bytearray(tarfile.TarInfo("b.json").tobuf())
    wrong[156:157] = kind
    wrong[124:136] = b"\xff" * 8 + struct.pack(">i", size)
    wrong[148:156] = b"%06o\0 " % sum(wrong[:148] + b" " * 8 + wrong[156:])
    path = tmp_path / "x.tar"
    path.write_bytes(good.tobuf() + b"{}".ljust(512, b"\0") + wrong + b"\0" * 1024)
    with pytest.raises(InputError, match=r"the size of member 'b\.json' cannot be"):
        open_input(path)


class Counting(io.BytesIO):
    """A file that says how much of it was asked for at a time."""

    largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.largest = max(self.largest, size or 0)
        return super().read(size)


def test_empty_members_of_a_gzip_file_cost_little_each() -> None:
    raw = Counting(gzip.compress(b"") * 2000 + gzip.compress(b"text"))
    assert GzipStream(raw).read() == b"text"
    # The rest of a piece is copied for each member.
    assert raw.largest <= 1 << 16
