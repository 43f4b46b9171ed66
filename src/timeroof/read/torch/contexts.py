"""Where on the host something happened: inside which ops, modules and annotations.

Frames of a thread nest. They are walked once in order of their start with a stack;
every frame takes over what its parent knows, so that a launch needs to ask only the
frame on top of the stack.

Autograd's nodes and the ops that made them complete one another's records, too. A node of
the backward pass records the gradient that reaches it. Autograd insists that it has the
shape of the forward op's result, so an op whose own record has gaps (a list of tensors,
indices) learns the size of its result from its node. The other way round, a node of a custom
function records nothing but that gradient: what it works on are the arguments that the
function was called with.

An op and its node share a sequence number: the op that began last with a number made
the node with that number. FBGEMM's lookups have none and are found between the numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict

import msgspec
import numpy as np
import polars as pl

from timeroof.core.vocabulary import remembered
from timeroof.read.idle import Bools, Ints
from timeroof.read.torch.events import decoded
from timeroof.read.torch.tables import ANNOTATION, MODULE, MODULE_PREFIX, NONE, OP, Codes, Trace

# Phases of training, from the names that PyTorch and its users give to stretches of time.
UNMARKED, FORWARD, BACKWARD, OPTIMIZER, DATA, OTHER = range(6)
PHASE_NAMES = [None, "forward", "backward", "optimizer", "data", "other"]

_BACKWARD_OP = re.compile(r"autograd::engine::evaluate_function|.*Backward\d*$")
_ANNOTATIONS = (
    (OPTIMIZER, re.compile(r"optimizer\.(step|zero_grad)|(optimizer|zero_grad)\b", re.I)),
    (DATA, re.compile(r"enumerate\(dataloader|(load_batch|wait_for_batch|data_?load\w*)\b", re.I)),
    (BACKWARD, re.compile(r"backward(\b|_)", re.I)),
    (FORWARD, re.compile(r"forward(\b|_)|distributeddataparallel\.forward", re.I)),
)


def op_phase(name: str) -> int:
    """The phase that an op's name alone gives.

    >>> op_phase("autograd::engine::evaluate_function: MmBackward0") == BACKWARD
    True
    >>> op_phase("aten::mm") == UNMARKED
    True
    """
    return BACKWARD if _BACKWARD_OP.match(name) else UNMARKED


def annotation_phase(name: str) -> int:
    """The phase that an annotation's name gives.

    >>> annotation_phase("Optimizer.step#SGD.step") == OPTIMIZER
    True
    >>> annotation_phase("## forward:bottom_mlp ##") == FORWARD
    True
    >>> annotation_phase("ProfilerStep#5") == UNMARKED
    True
    """
    bare = name.strip("# \t")
    return next((phase for phase, names in _ANNOTATIONS if names.match(bare)), UNMARKED)


_LAUNCH = 3
_ENGINE = "autograd::engine::evaluate_function"


class Contexts(msgspec.Struct):
    """What is around every frame, as rows of the frames (-1: nothing), and around launches.

    `op` is the innermost op whose shapes were recorded (else the innermost), `outer` the
    outermost op but for the autograd engine's, `engine` the autograd engine's call.
    All have one more element, for what is around nothing, so that -1 is a place in them.
    """

    parent: Ints
    op: Ints
    outer: Ints
    engine: Ints
    module: Ints
    phase: Ints
    sequenced: Ints
    launch_parent: Ints
    modules: Codes


def walk(trace: Trace, launches: Ints) -> Contexts:
    """The contexts of all frames and of the given rows of launches."""
    frames, calls = trace.frames, trace.launches
    kind = np.concatenate([frames["kind"], np.full(len(launches), _LAUNCH, np.int32)])
    thread = np.concatenate([frames["thread"], calls["thread"][launches]])
    start = np.concatenate([frames["start"], calls["start"][launches]])
    end = np.concatenate([frames["end"], calls["end"][launches]])
    # With the same start the longer frame is outside, and a launch inside of all.
    inside = np.where(kind == _LAUNCH, np.inf, -end)
    order = np.lexsort((kind == OP, inside, start, thread))
    parents = _parents(order, thread, start, end, is_launch=kind == _LAUNCH)
    count = frames.height
    return _inherited(trace, order[order < count], parents[:count], parents[count:])


def _parents(order: Ints, thread: Ints, start: Ints, end: Ints, *, is_launch: Ints) -> Ints:
    """The frame around each event, walked in order."""
    parents = np.full(len(order), NONE, np.int64)
    threads, starts, ends = thread[order].tolist(), start[order].tolist(), end.tolist()
    found, launch = [], is_launch[order].tolist()
    stack: list[int] = []
    current = NONE
    for place, row in enumerate(order.tolist()):
        if threads[place] != current:
            current = threads[place]
            stack.clear()
        began = starts[place]
        while stack and ends[stack[-1]] <= began:
            stack.pop()
        found.append(stack[-1] if stack else NONE)
        if not launch[place]:
            stack.append(row)
    parents[order] = found
    return parents


def _inherited(trace: Trace, order: Ints, parents: Ints, launch_parents: Ints) -> Contexts:
    """What every frame takes over from its parent, parents first."""
    names = trace.names.values_in_order()
    kinds, codes = trace.frames["kind"].tolist(), trace.frames["name"].tolist()
    recorded = (trace.frames["signature"] >= 0) | (trace.frames["collective"] >= 0)
    known = [*recorded.tolist(), False]
    sequences = (trace.frames["sequence"] >= 0).tolist()
    op_phases, is_engine = [op_phase(n) for n in names], [n.startswith(_ENGINE) for n in names]
    modules = Codes()
    size = len(kinds) + 1
    op, outer, engine, module = ([NONE] * size for _ in range(4))
    phase, sequenced = [UNMARKED] * size, [False] * size
    above = parents.tolist()
    for row in order.tolist():
        up, kind, name = above[row], kinds[row], codes[row]
        op[row], outer[row], engine[row], module[row] = op[up], outer[up], engine[up], module[up]
        phase[row], sequenced[row] = phase[up], sequenced[up]
        if kind == OP:
            if known[row] or not known[op[up]]:
                op[row] = row
            if is_engine[name]:
                engine[row] = row
            elif outer[up] == NONE:
                outer[row] = row
            phase[row] = op_phases[name] or phase[up]
            sequenced[row] = sequences[row] or sequenced[up]
        elif kind == MODULE:
            module[row] = modules[module[up], names[name].removeprefix(MODULE_PREFIX)]
        elif kind == ANNOTATION:
            phase[row] = annotation_phase(names[name]) or phase[up]
    rows = {"op": op, "outer": outer, "engine": engine, "module": module, "phase": phase}
    return Contexts(
        parent=np.append(parents, NONE),
        **{name: np.array(values) for name, values in rows.items()},
        sequenced=np.array(sequenced, np.int64),
        launch_parent=launch_parents,
        modules=modules,
    )


def module_paths(modules: Codes) -> list[str]:
    """Paths such as ``Net_0/Linear_1`` by the codes of modules.

    >>> codes = Codes(); _ = codes[codes[-1, "Net_0"], "Linear_1"]
    >>> module_paths(codes)
    ['Net_0', 'Net_0/Linear_1']
    """
    paths: list[str] = []
    for up, name in modules.values_in_order():
        paths.append(f"{paths[up]}/{name}" if up >= 0 else name)
    return paths


_NODE = re.compile(r"^([A-Z]\w*?)Backward\d*$")
_LOOKUP_NODE = re.compile(r"CppNode<(?:\w+::)*Split(?:NoBag)?LookupFunction_(\w+?)_Op\w*>$")
_LOOKUP = re.compile(
    r"^fbgemm::(?:split_embedding_(?:nobag_)?codegen_lookup_(\w+?)_function\w*"
    r"|(dense)_embedding_(?:nobag_)?codegen_lookup_function\w*)$"
)
_LISTS = ("TensorList", "GenericList")


def exchange(trace: Trace) -> int:
    """Complete the records of forward ops and of custom nodes; how many were completed."""
    names = trace.names.values_in_order()
    ops = trace.frames["kind"] == OP
    pairs = _by_number(trace, names, ops)
    lookups = _lookups(trace, names, ops)
    signatures, own = trace.signatures, trace.frames["signature"]
    known, column, given = signatures.values_in_order(), own.copy(), 0
    for op, node in [*pairs, *lookups]:
        record, result = known[own[op]], _result(known[own[node]])
        if result is not None and _has_gaps(record):
            column[op] = signatures[(*record[:4], *result)]
            given += 1
    for op, node in lookups:
        column[node] = signatures[_joined(known[own[node]], known[own[op]])]
    trace.frames["signature"] = column
    return given + len(lookups)


def _by_number(trace: Trace, names: list[str], ops: Bools) -> list[tuple[int, int]]:
    """Forward ops and their nodes, by sequence number and name."""
    bases = [m[1].lower() if (m := _NODE.match(n)) else None for n in names]
    words = {b: i for i, b in enumerate(sorted({b for b in bases if b}))}
    if not words:
        return []
    of_node = np.array([NONE if b is None else words[b] for b in bases])
    plain = [n.partition("::")[2].replace("_", "").lower() for n in names]
    of_op = np.array([words.get(p, NONE) for p in plain])
    code, frames = trace.frames["name"], trace.frames
    usable = ops & (frames["signature"] >= 0) & (frames["sequence"] >= 0)
    nodes, makers = usable & (of_node[code] >= 0), usable & (of_op[code] >= 0)
    if not nodes.any() or not makers.any():
        return []
    asked, made = (
        pl.DataFrame(
            {
                "row": np.flatnonzero(which),
                "word": words_of[code[which]],
                "sequence": frames["sequence"][which],
                "start": frames["start"][which],
                "thread": frames["thread"][which],
            }
        ).sort("start")
        for which, words_of in ((nodes, of_node), (makers, of_op))
    )
    # Numbers are counted per thread: the same one on two threads says nothing.
    lone = pl.col("thread").n_unique().over("sequence", "word") == 1
    found = asked.join_asof(
        made.filter(lone), on="start", by=["sequence", "word"], check_sortedness=False
    ).filter(pl.col("row_right").is_not_null())
    return [(int(op), int(node)) for op, node in found.select("row_right", "row").iter_rows()]


def _lookups(trace: Trace, names: list[str], ops: Bools) -> list[tuple[int, int]]:
    """FBGEMM's lookups and their nodes, by the numbers of the ops before and after."""
    node_words = [m[1].lower() if (m := _LOOKUP_NODE.search(n)) else None for n in names]
    matches = [_LOOKUP.match(n) for n in names]
    op_words = [(m[1] or m[2]).lower() if m else None for m in matches]
    frames, code = trace.frames, trace.frames["name"]
    recorded = ops & (frames["signature"] >= 0)
    is_node = np.isin(code, [i for i, word in enumerate(node_words) if word])
    is_lookup = np.isin(code, [i for i, word in enumerate(op_words) if word])
    nodes = np.flatnonzero(recorded & is_node & (frames["sequence"] >= 0)).tolist()
    forward = np.flatnonzero(recorded & is_lookup).tolist() if nodes else []
    places: dict[tuple[str | None, int], list[int]] = defaultdict(list)
    for row in sorted(forward, key=lambda r: float(frames["start"][r])):
        places[op_words[code[row]], int(frames["thread"][row])].append(row)
    groups = [(word, _spans(trace, ops, rows)) for (word, _), rows in places.items()]
    found = []
    for node in nodes:
        number, began = float(frames["sequence"][node]), float(frames["start"][node])
        word = node_words[code[node]]
        fitting = [r for w, spans in groups if w == word for r in spans.around(number, began)]
        if len(fitting) == 1:
            found.append((fitting[0], node))
    return found


class _Spans(msgspec.Struct):
    """Ops of one thread in order, each with the sequence numbers before and after it."""

    rows: list[int]
    starts: list[float]
    before: list[float]
    after: list[float]

    def around(self, number: float, began: float) -> list[int]:
        """Ops that began before a time and between whose numbers this one lies, two at most."""
        found: list[int] = []
        place = bisect_right(self.before, number) - 1
        while place >= 0 and self.after[place] > number and len(found) < 2:
            if self.starts[place] < began:
                found.append(self.rows[place])
            place -= 1
        return found


def _spans(trace: Trace, ops: Bools, rows: list[int]) -> _Spans:
    """The last sequence number before each op on its thread, and the first one after it."""
    frames = trace.frames
    near = np.flatnonzero(
        ops & (frames["thread"] == frames["thread"][rows[0]]) & (frames["sequence"] >= 0)
    )
    near = near[np.argsort(frames["start"][near], kind="stable")]
    # Numbers only grow; where a broken trace's do not, the largest so far stands.
    numbers = np.maximum.accumulate(frames["sequence"][near]) if len(near) else np.empty(0)
    framed = np.concatenate([[-np.inf], numbers, [np.inf]])
    starts = frames["start"][near]
    return _Spans(
        rows,
        frames["start"][rows].tolist(),
        framed[np.searchsorted(starts, frames["start"][rows])].tolist(),
        framed[np.searchsorted(starts, frames["end"][rows]) + 1].tolist(),
    )


def _decoded(text: bytes) -> list[object]:
    found = decoded(text or b"[]")
    return found if isinstance(found, list) else []


@remembered(4096)
def _result(gradient: tuple[bytes, ...]) -> tuple[bytes, bytes] | None:
    """Shape and type of the only result, as a node's gradient says them."""
    dims, types = _decoded(gradient[0]), _decoded(gradient[1])
    if len(dims) != 1 or len(types) != 1 or not isinstance(types[0], str) or not types[0]:
        return None
    if not isinstance(dims[0], list):
        return None
    return msgspec.json.encode(dims), msgspec.json.encode(types)


@remembered(4096)
def _has_gaps(recorded: tuple[bytes, ...]) -> bool:
    """Whether an op has a list (of which no format is recorded) or an argument without a word.

    Only such ops are completed: others need it not, and equal calls stay one row.
    """
    dims, types, values = (_decoded(recorded[i]) for i in (0, 1, 3))
    for place, kind in enumerate(types):
        said = (place < len(dims) and dims[place]) or (place < len(values) and values[place])
        if kind in _LISTS or (kind == "" and not said):
            return True
    return False


def _joined(gradient: tuple[bytes, ...], forward: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The record of a node with the arguments of its function behind the gradient."""
    texts = []
    gaps: tuple[tuple[int, object], ...] = ((0, []), (1, ""))
    for place, missing in gaps:
        own, more = _decoded(gradient[place]), _decoded(forward[place])
        texts.append(msgspec.json.encode([*own[:1], *([missing] * (1 - len(own))), *more]))
    values = _decoded(forward[3])
    return texts[0], texts[1], b"", msgspec.json.encode(["", *values]) if values else b""
