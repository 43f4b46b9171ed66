"""Where on the host something happened: inside which ops, modules and annotations.

Frames of a thread nest. They are walked once in order of their start with a stack;
every frame takes over what its parent knows, so that a launch needs to ask only the
frame on top of the stack.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from timeroof.read.idle import Ints
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
