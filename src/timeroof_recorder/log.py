"""A file of records: 4 bytes of length, 4 of a hash, marshal; whole after any end of the process.

The file is only open while it is written to: no descriptor stays that a program may close, count
or hand to a child. A record is either whole or the last one. Steps are written several together.
"""

import _imp
import marshal
import sys

from timeroof_recorder.process import posix, time

TYPE_CHECKING = False


SUFFIX = ".rec"
# A launcher's words for which of its processes this is.
RANKS = (b"RANK", b"LOCAL_RANK", b"WORLD_SIZE", b"SLURM_PROCID", b"OMPI_COMM_WORLD_RANK")
# Not blocking: a pipe that a program put in its place would wait for a reader.
_APPEND = posix.O_WRONLY | posix.O_APPEND | posix.O_CLOEXEC | posix.O_NONBLOCK
_PLAN = "plan"


class Log:
    """Framed records of one process, appended."""

    def __init__(self, folder: str, *, forked: bool = False) -> None:
        self.folder, self.forked, self.pid = folder, forked, posix.getpid()
        self.path: str | None = None
        self._is_dead = False

    def write(self, *record: object) -> None:
        """Append a record of plain values; a full disk ends the recording, not the program."""
        if self._is_dead:
            return
        try:
            body = marshal.dumps((time.time_ns(), *record), 2)  # type: ignore[arg-type]
            frame = len(body).to_bytes(4, "little") + _imp.source_hash(0, body)[:4] + body
            file = posix.open(self.path, _APPEND) if self.path is not None else self._create()
            try:
                self._is_dead = posix.write(file, frame) != len(frame)
            finally:
                posix.close(file)
        except (OSError, ValueError, MemoryError, OverflowError):
            self._is_dead = True

    def _create(self) -> int:
        turn = 0
        while True:  # the same pid again: os.exec
            self.path = f"{self.folder}/{self.pid}-{turn}{SUFFIX}"
            try:
                return posix.open(self.path, _APPEND | posix.O_CREAT | posix.O_EXCL, 0o600)
            except FileExistsError:
                turn += 1

    def begin(self) -> None:
        """Write who this process is, once."""
        if self.path is None:
            ranks = {k.decode(): posix.environ[k].decode() for k in RANKS if k in posix.environ}
            words = [word.encode("utf-8", "surrogateescape") for word in sys.orig_argv]
            self.write("process", self.pid, posix.getppid(), self.forked, words, ranks, sys.version)

    def file_for(self, what: str, suffix: str) -> str:
        """A path of this process's own beside its records."""
        return f"{self.folder}/{self.pid}-{what}-{time.perf_counter_ns()}{suffix}"


def records(data: bytes) -> list[tuple[object, ...]]:
    """The whole records of a file's content, up to the first that is cut short or damaged.

    >>> body = marshal.dumps((1, "note", "text"), 2)
    >>> frame = len(body).to_bytes(4, "little") + _imp.source_hash(0, body)[:4] + body
    >>> records(frame + frame[:-1])
    [(1, 'note', 'text')]
    """
    place = 0
    found: list[tuple[object, ...]] = []
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4], "little")
        body = data[place + 8 : place + 8 + size]
        if len(body) < size or _imp.source_hash(0, body)[:4] != data[place + 4 : place + 8]:
            break
        found.append(marshal.loads(body))
        place += 8 + size
    return found


def write_plan(folder: str, plan: dict[str, object]) -> None:
    """Put down what the recorders of a run are to do."""
    file = posix.open(f"{folder}/{_PLAN}", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
    try:
        posix.write(file, marshal.dumps(plan, 2))
    finally:
        posix.close(file)


def read_plan(folder: str) -> dict[str, object] | None:
    """What to do; None where the run is over and its folder is gone."""
    try:
        file = posix.open(f"{folder}/{_PLAN}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None
    try:
        plan = marshal.loads(posix.read(file, 1 << 20))
    except (ValueError, EOFError, TypeError):
        return None
    finally:
        posix.close(file)
    return plan if isinstance(plan, dict) else None


# Steps as they are written down: several together, each with the number of its kind.


# Steps are written down together, at most so late: a program may end without a word (os._exit,
# SIGKILL), and writing takes about four microseconds.
FLUSH_NS = 5_000_000
# Single steps are kept of the first so many; of later ones how many and how long.
MOST_STEPS = 20_000
# Steps of a kind whose times tell what is usual, and how many times longer a step of another is.
RECENT, LONGER = 15, 4.0
# More different sizes of what otherwise is the same are no kinds.
MOST_SIZES = 4
VARYING = "varying"


class StepLog:
    """Writes steps into a log, and knows the kinds that they are of."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._written = self._flushed_ns = 0
        self._waiting: list[tuple[object, ...]] = []
        self._later: dict[int, list[int]] = {}
        self._keys: dict[tuple[object, ...], int] = {}
        self._recent: dict[tuple[object, ...], list[int]] = {}
        self._sizes_of: dict[tuple[object, ...], list[tuple[tuple[int, ...], ...]]] = {}

    def restart(self) -> None:
        """Count steps from the beginning; kinds keep their numbers."""
        self._written, self._later = 0, {}

    def size_of(self, items: tuple[object, ...], sizes: tuple[tuple[int, ...], ...]) -> object:
        """The sizes of a step where there are few different ones; else that they vary."""
        known = self._sizes_of.setdefault(items, [])
        if sizes not in known and len(known) <= MOST_SIZES:
            known.append(sizes)
        return sizes if len(known) <= MOST_SIZES else VARYING

    def kind_of(self, what: tuple[object, ...], own_ns: int | None, *, is_usual: bool) -> int:
        """The number of a step's kind: what happened in it, and whether it took far longer than
        others; None where its time says nothing. What is usual follows from usual steps."""
        usual = self._recent.setdefault(what, [])
        is_long = False
        if own_ns is not None:
            if len(usual) >= 2:
                is_long = own_ns > LONGER * sorted(usual)[len(usual) // 2]
            if is_usual:
                usual.append(own_ns)
                del usual[:-RECENT]
        key = (*what, is_long)
        number = self._keys.get(key)
        if number is None:
            number = self._keys[key] = len(self._keys)
            self._log.write("kind", number, key)
        return number

    def write(
        self, step: tuple[object, ...], kind: int, duration_ns: int, end_ns: int, *, is_kept: bool
    ) -> None:
        """Note a step; one that `is_kept` is written at once, with all before it."""
        if self._written < MOST_STEPS or is_kept:
            self._written += 1
            self._waiting.append(step)
        else:
            both = self._later.setdefault(kind, [0, 0])
            both[0] += 1
            both[1] += duration_ns
        if is_kept or end_ns - self._flushed_ns > FLUSH_NS:
            self.flush(step[0])
            self._flushed_ns = end_ns

    def flush(self, number: object) -> None:
        """Write down what waits; `number` is that of the last step."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._log.write("steps", waiting)
        if self._later:
            later, self._later = self._later, {}
            self._log.write("later", number, later)
