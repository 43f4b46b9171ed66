"""oneDNN's verbose log (``ONEDNN_VERBOSE=1``, ``DNNL_VERBOSE=1``): one line per primitive.

FLOPs are not counted here: `work.onednn` knows the call behind a primitive, and its shapes; the
problem's text stays as a label.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile
from timeroof.core.shapes import SHAPE, Shape
from timeroof.read.events import Whole, profile_of
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input
from timeroof.work.call import Call, input_shape, parse_dtype
from timeroof.work.onednn import call_from_onednn

# One line of oneDNN's verbose log, in the spellings of versions 0.x to 3.x.
# It is ``onednn_verbose[,v1][,timestamp][,primitive],exec,<engine>,<kind>,<implementation>,
# <prop kind>,<memory formats>,<attributes>,<auxiliary>,<problem>,<milliseconds>``; the parts in
# brackets came with versions 2.x and 3.x. Logs are read with it, and lines caught in a live run:
# so it needs nothing that would weigh on the program that runs.
_TIMESTAMP = re.compile(r"^\d+(?:\.\d+)?(?:e\+?\d+)?$")
_TYPE = re.compile(
    r"\b(src|data|wei|weights|dst|diff_src|diff_dst)[:_](f64|f32|f16|bf16|tf32"
    r"|f8_e[45]m[23]|s32|s8|u8|s4|u4)\b"
)
# Primitives that only move data.
MOVERS = frozenset({"reorder", "concat", "shuffle", "zero_pad"})


class Primitive(NamedTuple):
    """What ran: lines that differ only in time share one."""

    engine: str
    kind: str
    implementation: str
    prop: str
    formats: str
    attributes: str
    auxiliary: str
    problem: str

    @property
    def dtype(self) -> str | None:
        """The data type of the source, else of the first tensor that has one."""
        types = dict(reversed(_TYPE.findall(self.formats)))
        named = types.get("src") or types.get("data") or next(iter(types.values()), "")
        return parse_dtype(named)

    @property
    def call(self) -> Call:
        """The call that the primitive is, for whoever counts it."""
        words = self.auxiliary.split()
        algorithm = next((w.removeprefix("alg:") for w in words if w.startswith("alg:")), "")
        return call_from_onednn(self.kind, self.prop, self.formats, self.problem, algorithm)


class Execution(NamedTuple):
    """A primitive that ran, how long, and when if the log says so."""

    primitive: Primitive
    time_ms: float
    timestamp_ms: float | None
    # What stands between the engine and the time.
    words: tuple[str, ...]


def parse_execution(line: str) -> Execution | None:
    """The primitive that a line reports, or None where the line is cut or of another kind.

    >>> line = "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32 dst_f32,,,2x16,0.018"
    >>> found = parse_execution(line)
    >>> found.primitive.kind, found.primitive.problem, found.time_ms
    ('reorder', '2x16', 0.018)
    """
    words = line.split(",")[1:]
    timestamp = None
    while words and not words[0].startswith("exec"):
        word = words.pop(0)
        if _TIMESTAMP.match(word):
            timestamp = float(word)
        elif word not in ("v0", "v1", "primitive"):
            return None
    if not words:
        return None
    words.pop(0)
    # Version 0.x names no engine.
    engine = words.pop(0) if words and re.match(r"^(cpu|gpu)\d*(:\d+)?$", words[0]) else "cpu"
    return _execution(words, engine, timestamp)


def _execution(words: list[str], engine: str, timestamp: float | None) -> Execution | None:
    """kind, implementation, prop, formats, attributes…, auxiliary, problem, time."""
    if len(words) < 6:
        return None
    try:
        time_ms = float(words[-1])
    except ValueError:
        return None
    if not (math.isfinite(time_ms) and time_ms >= 0):
        return None
    kind, implementation, prop, formats, *middle = words[:-1]
    problem = middle.pop() if middle else ""
    auxiliary = middle.pop() if middle else ""
    primitive = Primitive(
        engine=engine,
        kind=kind,
        implementation=implementation,
        prop="" if prop == "undef" else prop,
        formats=formats,
        attributes=",".join(middle).strip(),
        auxiliary=auxiliary,
        problem=problem,
    )
    known = timestamp is not None and math.isfinite(timestamp)
    return Execution(primitive, time_ms, timestamp if known else None, tuple(words[:-1]))


_PLAIN_TIME = re.compile(r"\d{1,9}(\.\d{1,9})?")
_MARK = re.compile(rb"(?:onednn|dnnl|mkldnn)_verbose,")
_VERSION = re.compile(r"info,(?:oneDNN|DNNL|Intel MKL-DNN|oneDNN) v?([\d.]+)")
_THREADS = re.compile(r"nthr:(\d+)")
MAX_LINE_BYTES = 1 << 20
MAX_EXECUTIONS = 10_000_000
# Lines without their time that are known again without being taken apart.
MAX_KNOWN = 50_000


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the primitives that ran."""
    log = _Log()
    for line in _lines(found.only):
        log.take(line)
        if len(log.times_ms) > MAX_EXECUTIONS:
            what = f"has more than {MAX_EXECUTIONS} primitives that ran"
            raise InputError(what, found.name, "record fewer steps")
    if not log.times_ms:
        what = "has oneDNN lines but no primitive that ran with its time"
        raise InputError(what, found.name, "record with ONEDNN_VERBOSE=1 (or profile_exec)")
    return _profile(log, found)


@dataclass
class _Log:
    """What a log said."""

    # A log of millions of lines repeats few primitives: each is kept once.
    primitives: dict[Primitive, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    which: array[int] = field(default_factory=lambda: array("q"))
    times_ms: array[float] = field(default_factory=lambda: array("d"))
    starts_ms: array[float] = field(default_factory=lambda: array("d"))
    version: str | None = None
    threads: int | None = None
    isa: str | None = None
    skipped: Counter[str] = field(default_factory=Counter)

    def take(self, line: str) -> None:
        """Take in one line."""
        head, _, time_ms = line.rpartition(",")
        place = self.known.get(head)
        if place is not None and _PLAIN_TIME.fullmatch(time_ms):
            self._append(place, float(time_ms), math.nan)
        elif ",exec," in line or ",exec:" in line:
            execution = parse_execution(line)
            if execution is None:
                reason = "graph partitions" if ",graph," in line else "lines that are cut"
                self.skipped[reason] += 1
            else:
                self._add(execution, head)
        elif ",info," in line:
            if found := _VERSION.search(line):
                self.version = found.group(1)
            if found := _THREADS.search(line):
                self.threads = int(found.group(1)[:6])
            if ",isa:" in line:
                self.isa = line.split(",isa:", 1)[1].strip()
        elif ",create" in line:
            self.skipped["creations of primitives"] += 1

    def _add(self, execution: Execution, head: str) -> None:
        place = self.primitives.setdefault(execution.primitive, len(self.primitives))
        start = execution.timestamp_ms
        if start is None and len(self.known) < MAX_KNOWN:
            self.known[head] = place
        self._append(place, execution.time_ms, math.nan if start is None else start)

    def _append(self, place: int, time_ms: float, start_ms: float) -> None:
        self.which.append(place)
        self.times_ms.append(time_ms)
        self.starts_ms.append(start_ms)

    def events(self) -> tuple[pl.DataFrame, bool]:
        """One row per execution, and whether they have timestamps; else they follow each other."""
        length = np.frombuffer(self.times_ms) * 1e6
        start = np.frombuffer(self.starts_ms) * 1e6
        timed = bool(np.isfinite(start).all())
        start = start - start.min() if timed else np.cumsum(length) - length
        rows = pl.DataFrame(
            [_row(p) for p in self.primitives],
            infer_schema_length=None,
            schema_overrides={"shape": SHAPE},
        )
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("call"))
        events = rows[np.frombuffer(self.which, dtype=np.int64)]
        return events.with_columns(
            pl.Series("start_ns", start), pl.Series("end_ns", start + length)
        ), timed


def _row(primitive: Primitive) -> dict[str, Shape | str | float | None]:
    """The fields of a profile's row, times apart."""
    return {
        "kind": "primitive",
        "name": f"{primitive.kind} {primitive.implementation}",
        "short_name": primitive.kind,
        "shape": input_shape(primitive.call),
        "dtype": primitive.dtype,
        "phase": next((p for p in ("forward", "backward") if primitive.prop.startswith(p)), None),
        "gpu": primitive.engine,
        "flop/fp32": 0.0 if primitive.kind in MOVERS else None,
        "label.onednn_kind": primitive.kind,
        "label.onednn_problem": primitive.problem or None,
        "label.onednn_implementation": primitive.implementation,
        "label.onednn_prop": primitive.prop or None,
        "label.onednn_formats": primitive.formats or None,
        "label.onednn_attributes": primitive.attributes or None,
        "label.onednn_auxiliary": primitive.auxiliary or None,
        "label.onednn_engine": primitive.engine,
    }


def _lines(entry: Entry) -> Iterator[str]:
    """The lines of oneDNN in a log that may hold anything else."""
    rest = b""
    for chunk in entry.chunks():
        *whole, rest = (rest + chunk).split(b"\n")
        rest = rest[:MAX_LINE_BYTES]
        yield from (_own(line) for line in whole if _MARK.search(line[:4096]))
    if _MARK.search(rest):
        yield _own(rest)


def _own(line: bytes) -> str:
    start = _MARK.search(line)
    return line[start.start() if start else 0 :].decode("utf-8", "replace").strip()


def _profile(log: _Log, found: Input) -> Profile:
    events, timed = log.events()
    notes = [
        Note(f"{count} {what} are not rows.", "left-out") for what, count in log.skipped.items()
    ]
    if log.isa:
        notes.append(Note(f"Instruction set: {log.isa}.", "instruction-set"))
    source = source_of("oneDNN", found, version=log.version)
    extra: dict[str, object] = {"threads": log.threads}
    calls = [p.call for p in log.primitives]
    return profile_of(
        events, Whole(source, None, tuple(notes), has_gaps=timed, calls=calls, extra=extra)
    )
