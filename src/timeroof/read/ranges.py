"""Ranges that a program marks on its host threads (NVTX, roctx): op, module and phase of a launch.

PyTorch's ``emit_nvtx`` names ops (``aten::addmm, op_id = 7, sizes = [[4], [2, 3]]``); people
name modules, steps and phases. A launch belongs to all ranges open on its thread at that time:
the innermost op is its op, the other ranges from outside in are its module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from timeroof.core.shapes import Shape, parse_shape, shape_series
from timeroof.read.idle import host_spans, link_launches

MAX_DEPTH = 64
PLACE_FIELDS = ("op", "shape", "module", "phase")
MAX_MODULE_CHARS = 200

_OP = re.compile(r"^(?:aten|prims|prim|torch|c10d|c10d_functional|quantized|torchvision)::[\w.]+")
_AUTOGRAD = re.compile(r"^(?:autograd::engine::evaluate_function: )?(\w+Backward\d*)\b")
_NUMBERS = r", (?:op_id|seq) = \d+|, input_op_ids = .*$"
_SUFFIX = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = ")
_SIZES = re.compile(r"sizes = (\[.*\])(?:, input_op_ids.*)?$")
_STEP = re.compile(
    r"(?i)\b((?:train(?:ing)?[ _])?(?:profiler)?(?:step|iter(?:ation)?|batch|epoch))"
    r"[ _#:=-]*\d+\b"
)
_PHASES = (
    ("backward", re.compile(r"(?i)backward|\bbwd\b|autograd")),
    ("optimizer", re.compile(r"(?i)optimi[sz]er|\bopt(?:im)?[ _.]?step\b|zero_grad")),
    ("data", re.compile(r"(?i)data[ _]?load|\bfetch[ _](?:data|batch)\b|enumerate\(")),
    ("forward", re.compile(r"(?i)forward|\bfwd\b")),
)


@dataclass(frozen=True)
class Mark:
    """What one range's text says."""

    text: str
    is_op: bool = False
    shape: Shape | None = None
    phase: str | None = None
    is_step: bool = False


def read_mark(text: str) -> Mark:
    """The meaning of a range's text.

    >>> read_mark("aten::mm, op_id = 3, sizes = [[2, 3], [3, 4]]").shape
    ((2, 3), (3, 4))
    >>> read_mark("step 17").text, read_mark("layer1/backward").phase
    ('step', 'backward')
    """
    phase = next((name for name, pattern in _PHASES if pattern.search(text)), None)
    autograd = _AUTOGRAD.match(text)
    if autograd or _OP.match(text) or _SUFFIX.search(text):
        sizes = _SIZES.search(text)
        name = autograd.group(1) if autograd else _SUFFIX.split(text, maxsplit=1)[0]
        return Mark(name, is_op=True, shape=_shape(sizes), phase=phase)
    plain = _STEP.sub(lambda found: found.group(1), text)
    return Mark(plain[:MAX_MODULE_CHARS], phase=phase, is_step=plain != text)


def _shape(sizes: re.Match[str] | None) -> Shape | None:
    """The shape of an op's tensors; `[]` stands for what is no tensor too."""
    shape = parse_shape(sizes[1]) if sizes is not None else None
    return tuple(filter(None, shape)) or None if shape else None


@dataclass(frozen=True)
class Place:
    """Where in the program a launch happened."""

    op: str | None = None
    shape: Shape | None = None
    module: str | None = None
    phase: str | None = None


def place_of(marks: tuple[Mark, ...]) -> Place:
    """The place that nested ranges, outermost first, describe."""
    ops = [mark for mark in marks if mark.is_op]
    modules = [mark.text for mark in marks if not mark.is_op and mark.text]
    return Place(
        op=ops[-1].text if ops else None,
        shape=ops[-1].shape if ops else None,
        module="/".join(modules)[:MAX_MODULE_CHARS] or None,
        phase=next((mark.phase for mark in marks if mark.phase), None),
    )


class Places:
    """For every thread, which ranges were open at which time."""

    def __init__(self, ranges: pl.DataFrame) -> None:
        """`ranges` has process, thread, start_ns, end_ns, text."""
        self._places: dict[Place, int] = {Place(): 0}
        self._paths: dict[tuple[int, ...], int] = {}
        self._threads: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        ranges = ranges.filter(pl.col("end_ns") >= pl.col("start_ns")).drop_nulls()
        # Numbers that differ from call to call go first: few texts are left to look at.
        ranges = ranges.with_columns(pl.col("text").str.replace_all(_NUMBERS, ""))
        texts = ranges["text"].unique(maintain_order=True)
        self._marks = [read_mark(text) for text in texts.to_list()]
        self.steps = sum(mark.is_step for mark in self._marks)
        loads = [t for t, m in zip(texts, self._marks, strict=True) if m.phase == "data"]
        # The ranges in which the program fetches data.
        self.data = ranges.filter(pl.col("text").is_in(loads)).drop("text")
        codes = pl.DataFrame({"text": texts}).with_row_index("code")
        ranges = ranges.join(codes, on="text", how="left", maintain_order="left")
        for (thread,), of_thread in ranges.group_by("thread"):
            self._threads[int(str(thread))] = self._sweep(of_thread)

    def _sweep(self, ranges: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Times at which the open ranges change, and the place from each of them on."""
        start, end = ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
        codes = ranges["code"].to_list()
        count = len(codes)
        times = np.concatenate([start, end])
        # At one time ends come before starts, long ranges open first and close last.
        length = np.concatenate([start - end, end - start])
        order = np.lexsort((length, np.repeat([1, 0], count), times))
        opened: dict[int, int] = {}
        found = np.zeros(len(times), dtype=np.int64)
        for position, index in enumerate(order.tolist()):
            if index >= count:
                opened.pop(index - count, None)
            elif len(opened) < MAX_DEPTH:
                opened[index] = codes[index]
            found[position] = self._number(tuple(opened.values()))
        return times[order], found

    def _number(self, path: tuple[int, ...]) -> int:
        """The number of the place that a path of texts leads to; equal places share one."""
        number = self._paths.get(path)
        if number is None:
            place = place_of(tuple(self._marks[code] for code in path))
            number = self._places.setdefault(place, len(self._places))
            self._paths[path] = number
        return number

    def at(self, threads: pl.Series, times_ns: pl.Series) -> pl.DataFrame:
        """Op, shape, module and phase of launches at these threads and times."""
        which = np.zeros(len(threads), dtype=np.int64)
        thread = threads.fill_null(-1).to_numpy()
        times = times_ns.fill_null(-1).to_numpy()
        for key, (changes, places) in self._threads.items():
            rows = np.flatnonzero(thread == key)
            at = np.searchsorted(changes, times[rows], side="right") - 1
            which[rows] = np.where(at >= 0, places[np.maximum(at, 0)], 0)
        shapes = shape_series([place.shape for place in self._places])
        columns = [
            shapes
            if f == "shape"
            else pl.Series(f, [getattr(p, f) for p in self._places], pl.String)
            for f in PLACE_FIELDS
        ]
        return pl.DataFrame(columns)[which]


def linked(events: pl.DataFrame, calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events with their launches and the ranges (roctx) around them; and what the host did.

    `calls` are of the host, with a category that says which of them are ranges.
    """
    is_mark = pl.col("category").str.contains("MARKER")
    plain = calls.filter(~is_mark).drop("category")
    events, data = link_launches(events, plain), None
    marks = calls.filter(is_mark).rename({"name": "text"})
    if marks.height and "launch_thread" in events.columns:
        places = Places(marks.select("process", "thread", "start_ns", "end_ns", "text"))
        events = events.hstack(places.at(events["launch_thread"], events["launch_start_ns"]))
        data = places.data
    return events.drop("launch_thread", strict=False), host_spans(plain, data)


def lend_places(events: pl.DataFrame, like: list[str]) -> tuple[pl.DataFrame, int]:
    """Events whose launch is missing take op, shape and phase from linked ones of the same kernel.

    Only where all linked events alike agree; they are marked ``label.inferred = op``. Returns
    the table and how many events were helped.
    """
    known = events.filter(pl.col("op").is_not_null())
    if not known.height or known.height == events.height:
        return events, 0
    agreed = known.group_by(like).agg(
        pl.when(pl.col(f).n_unique() == 1).then(pl.col(f).first()).alias(f"_{f}")
        for f in PLACE_FIELDS
    )
    events = events.join(agreed, on=like, how="left", nulls_equal=True, maintain_order="left")
    unlinked = pl.col("launch_start_ns").is_null() & (pl.col("kind") == "kernel")
    helped = unlinked & pl.col("op").is_null() & pl.col("_op").is_not_null()
    events = events.with_columns(
        *(
            pl.when(helped).then(pl.col(f"_{f}")).otherwise(pl.col(f)).alias(f)
            for f in PLACE_FIELDS
        ),
        pl.when(helped).then(pl.lit("op")).alias("label.inferred"),
    ).drop([f"_{f}" for f in PLACE_FIELDS])
    return events, int(events["label.inferred"].count())


# Phases of a training step, as people name the folders of their runs.
_PHASES_PHASES = {
    "forward": ("fw", "fwd", "forward"),
    "backward": ("bw", "bwd", "backward"),
    "optimizer": ("opt", "optim", "optimizer", "optimiser"),
    "data": ("dataloader", "dataloading"),
}
_BY_WORD = {word: phase for phase, words in _PHASES_PHASES.items() for word in words}


def phase_of_folder(folder: str) -> str | None:
    """The phase that a folder's name says, None where it says none or several.

    >>> phase_of_folder("run/fw"), phase_of_folder("PT-fp32-O0-Adam-bw-732898")
    ('forward', 'backward')
    >>> phase_of_folder("fwbw") is None
    True
    """
    last = folder.rstrip("/").rsplit("/", 1)[-1].lower()
    phases = {_BY_WORD[w] for w in re.split(r"[^a-z]+", last) if w in _BY_WORD}
    return phases.pop() if len(phases) == 1 else None
