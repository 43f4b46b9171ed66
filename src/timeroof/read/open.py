"""Open what a user names: plain or compressed files, archives, folders, all with bounded memory.

An `Entry` is one file's content as a stream, whatever it was wrapped in. A reader sees
decompressed bytes and the name that the user would recognise (``runs.zip!/rank0.json``).
"""

from __future__ import annotations

import io
import lzma
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from timeroof.core.errors import DamagedError, InputError, trace_ignored

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK_BYTES = 1 << 20
# zlib: 15 bits of window, and 16 says that a gzip header and checksum surround the data.
_GZIP_BITS = 15 + 16


class GzipStream(io.RawIOBase):
    """The decompressed bytes of a gzip file: of all its members, whatever follows the last one.

    The standard library's reader raises at such bytes before it hands over what came last.

    >>> import gzip
    >>> GzipStream(io.BytesIO(gzip.compress(b"one ") + gzip.compress(b"two") + b"tail")).read()
    b'one two'
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._member = zlib.decompressobj(_GZIP_BITS)
        self._waiting = b""
        self._done = False

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer; 0 at the end, EOFError where the data break off."""
        view = memoryview(buffer).cast("B")
        while not self._done:
            data = self._member.decompress(self._more(), len(view)) if len(view) else b""
            self._waiting = self._member.unconsumed_tail
            if self._member.eof:
                self._next_member()
            if data or not len(view):
                view[: len(data)] = data
                return len(data)
        return 0

    def _more(self) -> bytes:
        data = self._waiting or self._raw.read(_CHUNK_BYTES)
        if not data:
            raise EOFError("the compressed data end early")
        return data

    def _next_member(self) -> None:
        rest = self._member.unused_data
        while len(rest) < len(_GZIP) and (more := self._raw.read(_CHUNK_BYTES)):
            rest += more
        self._done = not rest.startswith(_GZIP)
        self._waiting = b"" if self._done else rest
        if not self._done:
            self._member = zlib.decompressobj(_GZIP_BITS)


HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 4 * 2**20
DEFAULT_MAX_BYTES = 64 * 10**9
# Wrapped more often than this is a trap, not a file.
MAX_WRAPPING = 3
MAX_FOLDER_FILES = 20_000

_GZIP, _ZSTD, _XZ, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"PK\x03\x04"


@dataclass(frozen=True)
class Entry:
    """One file's content: a name to show, and how to open its decompressed bytes."""

    name: str
    opener: Callable[[], AbstractContextManager[BinaryIO]]
    max_bytes: int = DEFAULT_MAX_BYTES
    # Where the bytes lie plainly on disk, for libraries that want a path (SQLite).
    plain_path: Path | None = None
    # Of the decompressed bytes, where that is known without reading them.
    size_bytes: int | None = None

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The decompressed bytes; damage and size beyond the limit become clear errors."""
        with _errors_named(self.name), self.opener() as stream:
            yield _Bounded(stream, self.name, self.max_bytes)  # type: ignore[misc]

    def chunks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The decompressed bytes, piece by piece."""
        with self.open() as stream:
            while chunk := stream.read(size):
                yield chunk

    def read(self) -> bytes:
        """All bytes at once, for formats that are small."""
        return b"".join(self.chunks())

    @cached_property
    def head(self) -> bytes:
        """The first bytes, for sniffing; what can be read before damage, if there is any."""
        try:
            with self.opener() as stream:
                return stream.read(HEAD_BYTES)
        except Exception:
            # Whatever is wrong shows itself with its name when the entry is read.
            trace_ignored(f"the beginning of {self.name} cannot be read")
            return b""


@dataclass(frozen=True)
class Input:
    """What one path on the command line holds: one entry, or the entries of a folder or archive."""

    name: str
    entries: tuple[Entry, ...]
    is_folder: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def only(self) -> Entry:
        """The entry of an input that has just one."""
        return self.entries[0]


def open_input(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Input:
    """What a path holds, with all wrapping taken off."""
    try:
        if path.is_dir():
            return Input(str(path), tuple(_folder_entries(path, max_bytes)), is_folder=True)
        size = path.stat().st_size
        if not path.is_file():
            raise InputError("is no file or folder", where=str(path))
    except OSError as error:
        advice = "check the path"
        raise InputError(f"cannot be read ({error.strerror})", str(path), advice) from error
    if size == 0:
        raise InputError("is empty", where=str(path), advice="record it again")
    opener = partial(_plain, path)
    entry = Entry(str(path), opener, max_bytes, plain_path=path, size_bytes=size)
    entries = tuple(_unwrapped(entry, 0))
    return Input(str(path), entries, is_folder=len(entries) != 1)


def _plain(path: Path) -> BinaryIO:
    return path.open("rb")


def folder_in(found: Input, entry: Entry) -> str:
    """The folder of an entry, seen from its input: "run/fw" for the input "…/run".

    Files that were named one by one have folders only where they lie in several.
    """
    if found.is_folder:
        inside = entry.name.removeprefix(found.name).lstrip("!/")
        return "/".join([Path(found.name).resolve().name, *inside.split("/")[:-1]])
    folders = {e.name.rpartition("/")[0] for e in found.entries}
    return entry.name.rpartition("/")[0] if len(folders) > 1 else ""


def path_of(entry: Entry) -> str:
    """The file on disk that an entry is, or is inside of: "runs.zip" of "runs.zip!/rank0.json"."""
    return entry.name.partition("!/")[0]


def short_name(name: str) -> str:
    """A name to keep in a report: the file and its folder, not the whole path.

    >>> short_name("/home/me/runs/fw/out.csv"), short_name("runs.zip!/rank0.json")
    ('fw/out.csv', 'runs.zip!/rank0.json')
    """
    return "/".join(name.split("/")[-2:])


def _folder_entries(folder: Path, max_bytes: int) -> Iterator[Entry]:
    """Files below a folder in order; links are not followed, so that none can form a loop."""
    paths = []
    for root, folders, files in os.walk(folder):
        folders.sort()
        found = [Path(root, name) for name in sorted(files)]
        paths += [path for path in found if not path.is_symlink()]
        if len(paths) > MAX_FOLDER_FILES:
            advice = "name the folder of one run"
            raise InputError(f"has more than {MAX_FOLDER_FILES} files", str(folder), advice)
    for path in paths:
        size = path.stat().st_size
        if size and path.is_file():
            opener = partial(_plain, path)
            entry = Entry(str(path), opener, max_bytes, plain_path=path, size_bytes=size)
            yield from _unwrapped(entry, 0)


def _unwrapped(entry: Entry, depth: int) -> Iterator[Entry]:
    """An entry without its compression or archive; several where an archive holds several."""
    head = entry.head[:512]
    if depth >= MAX_WRAPPING:
        yield entry
    elif head.startswith((_GZIP, _ZSTD, _XZ)):
        inner = Entry(entry.name, partial(_decompressed, entry, head), entry.max_bytes)
        yield from _unwrapped(inner, depth + 1)
    # Our own saved runs are zips that are read whole.
    elif head.startswith(_ZIP) and b"meta.json" not in head[:60]:
        yield from _zip_entries(entry, depth)
    elif head[257:262] == b"ustar":
        yield from _tar_entries(entry, depth)
    else:
        yield entry


@contextmanager
def _decompressed(entry: Entry, head: bytes) -> Iterator[BinaryIO]:
    with entry.opener() as raw:
        if head.startswith(_GZIP):
            yield cast("BinaryIO", io.BufferedReader(GzipStream(raw), HEAD_BYTES))
        elif head.startswith(_XZ):
            with lzma.LZMAFile(raw) as stream:
                yield cast("BinaryIO", stream)
        else:
            import zstandard

            unpacking = zstandard.ZstdDecompressor()
            reader = unpacking.stream_reader(raw, read_across_frames=True, closefd=False)
            yield cast("BinaryIO", io.BufferedReader(reader))


def _zip_entries(entry: Entry, depth: int) -> Iterator[Entry]:
    with _errors_named(entry.name), entry.opener() as stream, zipfile.ZipFile(stream) as archive:
        members = {m.filename: m.file_size for m in archive.infolist() if not m.is_dir()}
    yield from _members(entry, members, _zip_member, depth)


def _tar_entries(entry: Entry, depth: int) -> Iterator[Entry]:
    with (
        _errors_named(entry.name),
        entry.opener() as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        members = {m.name: m.size for m in archive if m.isfile()}
    yield from _members(entry, members, _tar_member, depth)


def _members(
    entry: Entry,
    members: dict[str, int],
    opened: Callable[[Entry, str], AbstractContextManager[BinaryIO]],
    depth: int,
) -> Iterator[Entry]:
    members = {name: size for name, size in members.items() if size}
    _refuse_many(members, entry.name)
    for member, size in sorted(members.items()):
        name, opener = f"{entry.name}!/{member}", partial(opened, entry, member)
        yield from _unwrapped(Entry(name, opener, entry.max_bytes, size_bytes=size), depth + 1)


@contextmanager
def _zip_member(entry: Entry, member: str) -> Iterator[BinaryIO]:
    with entry.opener() as raw, zipfile.ZipFile(raw) as archive:
        try:
            stream = archive.open(member)
        except (RuntimeError, NotImplementedError, KeyError) as error:
            # A member that is encrypted, or packed in a way that Python cannot unpack.
            raise InputError(f"cannot be unpacked ({error})", where=entry.name) from error
        with stream:
            yield cast("BinaryIO", stream)


@contextmanager
def _tar_member(entry: Entry, member: str) -> Iterator[BinaryIO]:
    with entry.opener() as raw, tarfile.open(fileobj=raw, mode="r|") as archive:
        stream = archive.extractfile(next(m for m in archive if m.name == member))
        assert stream is not None
        yield cast("BinaryIO", stream)


def _refuse_many(members: Collection[str], where: str) -> None:
    if len(members) > MAX_FOLDER_FILES:
        raise InputError(f"holds more than {MAX_FOLDER_FILES} files", where, "name one run")


class _Bounded:
    """A stream that refuses to give more bytes than allowed: a bomb ends here."""

    def __init__(self, stream: BinaryIO, name: str, limit: int) -> None:
        self._stream, self._name, self._left, self._limit = stream, name, limit, limit

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            advice = "raise --max-size if you trust the file"
            raise InputError(f"unpacks to more than {self._limit} bytes", self._name, advice)
        return data


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except tarfile.TarError as error:
        raise InputError(f"is no whole tar archive ({error})", where=name) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", where=name) from error
    except Exception as error:
        if not isinstance(error, _damage()):
            raise
        raise DamagedError(
            f"is damaged ({error or type(error).__name__})",
            where=name,
            advice="copy or record it again",
        ) from error


def _damage() -> tuple[type[Exception], ...]:
    """What unpacking raises; zstandard's own only where a file of this process needed it."""
    usual = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
    zstandard = sys.modules.get("zstandard")
    return usual if zstandard is None else (*usual, zstandard.ZstdError)
