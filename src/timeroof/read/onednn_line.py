"""One line of oneDNN's verbose log, in the spellings of versions 0.x to 3.x.

It is ``onednn_verbose[,v1][,timestamp][,primitive],exec,<engine>,<kind>,<implementation>,
<prop kind>,<memory formats>,<attributes>,<auxiliary>,<problem>,<milliseconds>``; the parts in
brackets came with versions 2.x and 3.x. Logs are read with it, and lines caught in a live run:
so it needs nothing that would weigh on the program that runs.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

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
        return types.get("src") or types.get("data") or next(iter(types.values()), None)


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
