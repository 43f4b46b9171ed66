"""Open what a user names: plain or compressed files, archives, folders, all with bounded memory.

An `Entry` is one file's content as a stream, whatever it was wrapped in. A reader sees
decompressed bytes and the name that the user would recognise (``runs.zip!/rank0.json``).
"""

from __future__ import annotations

import atexit
import io
import lzma
import os
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from timeroof.core.errors import DamagedError, InputError, Note, trace_ignored

if TYPE_CHECKING:
    import tarfile

    from _typeshed import WriteableBuffer

# What is left of a piece is copied for each member of a gzip file, and there may be thousands.
_PIECE_BYTES = 1 << 16
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
        data = self._waiting or self._raw.read(_PIECE_BYTES)
        if not data:
            raise EOFError("the compressed data end early")
        return data

    def _next_member(self) -> None:
        rest = self._member.unused_data
        while len(rest) < len(_GZIP) and (more := self._raw.read(_PIECE_BYTES)):
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


@dataclass
class Budget:
    """What one input may unpack to, over all archives inside of archives: a bomb ends here."""

    where: str
    max_bytes: int
    members: int = 0
    bytes_of: dict[str, int] = field(default_factory=dict)
    total_bytes: int = 0
    # Files without a byte, which are no entries.
    empty: list[str] = field(default_factory=list)

    def add_members(self, count: int) -> None:
        """Count files of an archive."""
        self.members += count
        if self.members > MAX_FOLDER_FILES:
            what = f"holds more than {MAX_FOLDER_FILES} files"
            raise InputError(what, self.where, "name one run")

    def seen(self, name: str, size: int) -> None:
        """Note how many bytes of an entry there are; reading it again does not count twice."""
        more = size - self.bytes_of.get(name, 0)
        if more <= 0:
            return
        self.bytes_of[name] = size
        self.total_bytes += more
        if self.total_bytes > self.max_bytes:
            advice = "raise --max-size if you trust the file"
            raise InputError(f"unpacks to more than {self.max_bytes} bytes", self.where, advice)


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
    # What all entries of one input may have together.
    budget: Budget | None = None

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The decompressed bytes; damage and size beyond the limit become clear errors."""
        with _errors_named(self.name), self.opener() as stream:
            yield _Bounded(stream, self)  # type: ignore[misc]

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
    # Files without a byte in a folder or archive: no entries, but perhaps one of them a rank.
    empty: Sequence[str] = ()

    @property
    def only(self) -> Entry:
        """The entry of an input that has just one."""
        return self.entries[0]


def open_input(path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Input:
    """What a path holds, with all wrapping taken off."""
    try:
        if path.is_dir():
            budget = Budget(str(path), max_bytes)
            notes: list[str] = []
            entries = tuple(_folder_entries(path, budget, notes))
            return Input(str(path), entries, True, notes, budget.empty)
        size = path.stat().st_size
        if not path.is_file():
            raise InputError(
                "is no file or folder", str(path), "save its content as a file and name that"
            )
    except OSError as error:
        advice = "check the path"
        raise InputError(f"cannot be read ({error.strerror})", str(path), advice) from error
    if size == 0:
        raise InputError("is empty", where=str(path), advice="record it again")
    opener = partial(_plain, path)
    budget = Budget(str(path), max_bytes)
    entry = Entry(str(path), opener, max_bytes, path, size, budget)
    entries = tuple(_unwrapped(entry, 0))
    return Input(str(path), entries, is_folder=len(entries) != 1, empty=budget.empty)


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


def names_below(paths: Sequence[str]) -> list[str]:
    """What files are called below the folder that they share.

    >>> names_below(["run/a/r0.json", "run/b/r0.json"])
    ['a/r0.json', 'b/r0.json']
    """
    whole = [os.path.abspath(path) for path in paths]  # noqa: PTH100
    root = os.path.commonpath([os.path.dirname(path) for path in whole])  # noqa: PTH120
    return [os.path.relpath(path, root) for path in whole]


def short_name(name: str) -> str:
    """A name to keep in a report: the file and its folder, not the whole path.

    >>> short_name("/home/me/runs/fw/out.csv"), short_name("runs.zip!/rank0.json")
    ('fw/out.csv', 'runs.zip!/rank0.json')
    """
    return "/".join(name.split("/")[-2:])


def _folder_entries(folder: Path, budget: Budget, notes: list[str]) -> Iterator[Entry]:
    """Files below a folder in order; links are not followed, so that none can form a loop."""

    def closed(error: OSError) -> None:
        if Path(error.filename) == folder:
            raise error
        text = f"Not read: the folder {short_name(error.filename)} ({error.strerror})."
        notes.append(Note(text, "not-read", "warning"))

    paths = []
    for root, folders, files in os.walk(folder, onerror=closed):
        folders.sort()
        found = [Path(root, name) for name in sorted(files)]
        paths += [path for path in found if not path.is_symlink()]
        if len(paths) > MAX_FOLDER_FILES:
            advice = "name the folder of one run"
            raise InputError(f"has more than {MAX_FOLDER_FILES} files", str(folder), advice)
    for path in paths:
        size = path.stat().st_size
        if not size:
            budget.empty.append(str(path))
        elif path.is_file():
            opener = partial(_plain, path)
            entry = Entry(str(path), opener, budget.max_bytes, path, size, budget)
            yield from _unwrapped(entry, 0)


def _unwrapped(entry: Entry, depth: int) -> Iterator[Entry]:
    """An entry without its compression or archive; several where an archive holds several."""
    head = entry.head[:512]
    if depth >= MAX_WRAPPING:
        yield entry
    elif head.startswith((_GZIP, _ZSTD, _XZ)):
        opener = partial(_decompressed, entry, head)
        inner = Entry(entry.name, opener, entry.max_bytes, budget=entry.budget)
        yield from _unwrapped(inner, depth + 1)
    # Our own saved runs are zips that are read whole.
    elif head.startswith(_ZIP) and b"meta.json" not in head[:60]:
        yield from _members(entry, True, depth)
    elif head[257:262] == b"ustar":
        yield from _members(entry, False, depth)
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


# Archives. Each is unpacked to where one can seek and listed once; members are found by place.

# Archives that lie inside of something are kept in memory up to this size, then on disk.
SPOOLED_BYTES = 64 * 2**20
# Archives that are open at a time: their members are read one after another.
OPEN_ARCHIVES = 3


def _in_order(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members, each behind the last: a size below 0 leads back, and Python's reader follows."""
    last = -1
    for member in tar:
        if member.size < 0 or member.offset <= last:
            from tarfile import ReadError

            raise ReadError(f"the size of member {member.name[:60]!r} cannot be")
        last = member.offset
        yield member


class _Archive:
    """An archive that is open: its members by their names."""

    def __init__(self, stream: BinaryIO, is_zip: bool) -> None:
        self.stream, self.lock = stream, threading.RLock()
        self.zip = zipfile.ZipFile(stream) if is_zip else None
        self.places: dict[str, tuple[int, int]] = {}
        if self.zip is None:
            import tarfile

            with tarfile.open(fileobj=stream, mode="r:") as tar:
                members = (m for m in _in_order(tar) if m.isreg())
                self.places = {m.name: (m.offset_data, m.size) for m in members}

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of every member."""
        if self.zip is None:
            return {name: size for name, (_, size) in self.places.items()}
        return {m.filename: m.file_size for m in self.zip.infolist() if not m.is_dir()}

    def open(self, member: str) -> BinaryIO:
        """A member's bytes."""
        if self.zip is None:
            return cast("BinaryIO", io.BufferedReader(_Part(self, *self.places[member])))
        return cast("BinaryIO", self.zip.open(member))

    def close(self) -> None:
        """Give the file back."""
        if self.zip is not None:
            self.zip.close()
        self.stream.close()


class _Part(io.RawIOBase):
    """A part of a file that several read from."""

    def __init__(self, archive: _Archive, start: int, size: int) -> None:
        self._archive, self._at, self._end = archive, start, start + size

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer; 0 at the end, EOFError where the file is cut."""
        view = memoryview(buffer).cast("B")
        with self._archive.lock:
            self._archive.stream.seek(self._at)
            data = self._archive.stream.read(min(len(view), self._end - self._at))
        if not data and len(view) and self._at < self._end:
            raise EOFError("the archive ends early")
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


# Archives by the names of their entries, those used last at the end.
_opened: dict[tuple[object, ...], _Archive] = {}


def _close_archives() -> None:
    """At the end of the process; a file that is left open is warned about."""
    while _opened:
        _opened.popitem()[1].close()


def _archive(entry: Entry, is_zip: bool) -> _Archive:
    on_disk = Path(path_of(entry)).stat()
    # A file that was written anew is another archive.
    key = (entry.name, is_zip, on_disk.st_mtime_ns, on_disk.st_size, on_disk.st_ino)
    found = _opened.pop(key, None)
    if found is None:
        stream = _seekable(entry)
        try:
            found = _Archive(stream, is_zip)
        except BaseException:
            stream.close()
            raise
    if not _opened:
        atexit.register(_close_archives)
    _opened[key] = found
    while len(_opened) > OPEN_ARCHIVES:
        _opened.pop(next(iter(_opened))).close()
    return found


def _seekable(entry: Entry) -> BinaryIO:
    """The bytes of an archive where one can seek in them; those inside of others are unpacked."""
    if entry.plain_path is not None:
        return entry.plain_path.open("rb")
    # Not closed here: the archive is read for as long as its members are.
    spooled = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
    for chunk in entry.chunks():
        spooled.write(chunk)
    spooled.seek(0)
    return cast("BinaryIO", spooled)


def _members(entry: Entry, is_zip: bool, depth: int) -> Iterator[Entry]:
    with _errors_named(entry.name, listing=True):
        every = _archive(entry, is_zip).sizes
    budget = entry.budget or Budget(entry.name, entry.max_bytes)
    sizes = {name: size for name, size in every.items() if size}
    budget.empty += [f"{entry.name}!/{name}" for name in every if name not in sizes]
    budget.add_members(len(sizes))
    for member, size in sorted(sizes.items()):
        name, opener = f"{entry.name}!/{member}", partial(_member, entry, is_zip, member)
        budget.seen(name, size)
        inner = Entry(name, opener, entry.max_bytes, size_bytes=size, budget=budget)
        yield from _unwrapped(inner, depth + 1)


@contextmanager
def _member(entry: Entry, is_zip: bool, member: str) -> Iterator[BinaryIO]:
    try:
        stream = _archive(entry, is_zip).open(member)
    except (RuntimeError, NotImplementedError, KeyError, IndexError, ValueError) as error:
        # A member that is encrypted, or packed in a way that Python cannot unpack.
        raise InputError(
            f"cannot be unpacked ({error})", entry.name, "unpack it yourself and name the files"
        ) from error
    with stream:
        yield stream


class _Bounded:
    """A stream that refuses to give more bytes than allowed."""

    def __init__(self, stream: BinaryIO, entry: Entry) -> None:
        self._stream, self._entry, self._given = stream, entry, 0

    def read(self, size: int = -1) -> bytes:
        entry = self._entry
        data = self._stream.read(size if size >= 0 else entry.max_bytes - self._given + 1)
        self._given += len(data)
        (entry.budget or Budget(entry.name, entry.max_bytes)).seen(entry.name, self._given)
        return data


@contextmanager
def _errors_named(name: str, *, listing: bool = False) -> Iterator[None]:
    """Errors of a file with its name. A directory that is wrong in any way is damaged; of a
    reader's own errors while it reads, only those that unpacking raises."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror or error})", name, "check the path"
        ) from error
    except Exception as error:
        if type(error).__module__ == "tarfile":
            raise InputError(
                f"is no whole tar archive ({error})", name, "copy or pack it again"
            ) from error
        if not (listing or isinstance(error, _damage())):
            raise
        reason = str(error) or type(error).__name__
        raise DamagedError(f"is damaged ({reason})", name, "copy or record it again") from error


def _damage() -> tuple[type[Exception], ...]:
    """What unpacking raises; zstandard's own only where a file of this process needed it."""
    usual = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
    zstandard = sys.modules.get("zstandard")
    return usual if zstandard is None else (*usual, zstandard.ZstdError)
