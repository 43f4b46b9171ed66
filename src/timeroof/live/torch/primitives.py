"""oneDNN's lines of a step, as primitives that ran."""

from __future__ import annotations

from collections.abc import Sequence

from timeroof.live.recording import PrimitiveSeen
from timeroof.read.onednn import parse_execution


def primitives_in(lines: Sequence[bytes]) -> list[PrimitiveSeen]:
    """The executed primitives of lines that have a time stamp.

    >>> line = b"onednn_verbose,v1,1000.5,primitive,exec,cpu,reorder,jit,undef,f,,,2x2,0.25"
    >>> [(seen.words[0], seen.start_ns, seen.duration_ns) for seen in primitives_in([line])]
    [('reorder', 1000500000, 250000)]
    """
    ran = [parse_execution(line.decode("utf-8", "replace").strip()) for line in lines]
    return [
        PrimitiveSeen(each.words, int(each.timestamp_ms * 1e6), int(each.time_ms * 1e6))
        for each in ran
        if each is not None and each.timestamp_ms is not None
    ]
