"""What an instruction's metadata says of the user's program: module, phase, line.

XLA keeps with every instruction the name of the op that it was made of. JAX writes transformations
and scopes into it (``jit(step)/transpose(jvp(Net))/conv1/dot_general``), TensorFlow its name scopes
(``gradient_tape/net/conv1/Conv2D``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath, PureWindowsPath

from timeroof.core.vocabulary import remembered
from timeroof.work.hlo import CONTAINERS, FUSIONS
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import Instruction, Module

_MOST_FRAMES = 200
# Scopes that the frameworks make themselves.
_LOOPS = frozenset({"while", "while_grad", "cond", "cond_grad"})
_OWN = re.compile(
    r"^(?:while|while_grad|cond_grad|_\d+|body|cond|branch_\d+_fun|closed_call|core_call|checkpoint|remat\d*|shard_map|scan"
    r"|rematted_computation|custom_[jv]vp_call\w*|xla_call|gradient_tape|gradients(?:_\d+)?|map"
    r"|(?:Stateful)?PartitionedCall(?:_\d+)?|(?:loop|while)_body\w*|(?:loop|while)_cond\w*"
    r"|Identity|main|body_fun|cond_fun)$"
)
# The last scope of a gradient where it is an op: all but Keras' convolutions begin with a capital.
_OP_SCOPE = re.compile(r"^(?:[A-Z]|(?:convolution|depthwise|conv\dd_transpose)(?:_\d+)?$)")
_WRAPPED = re.compile(r"^(\w+)\((.*)\)$")
_SCOPE = re.compile(r"^[A-Za-z_][\w.\-]*$")
# Transformations whose argument is the scope; of others (jit) it is a function's name.
_THROUGH = ("jvp", "transpose", "vmap", "remat", "checkpoint", "linearize")
_OPTIMIZER = re.compile(
    r"(?i)^(?:\w*optimi[sz]er\w*|adam\w*|sgd|rmsprop|adagrad|lamb|lion|nadam|adafactor|muon)(?:_\d+)?$"
)
_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<|[/\\]runfiles[/\\]"
    r"|timeroof_recorder[/\\]|tensorflow[/\\]python[/\\]|keras[/\\]src[/\\]|jax[/\\]_src[/\\]"
)


@remembered(65536)
def module_of(op_name: str) -> str | None:
    """The path of the module that an op belongs to.

    >>> module_of("jit(step)/transpose(jvp(Net))/conv1/conv_general_dilated")
    'Net.conv1'
    >>> module_of("gradient_tape/net/conv1/Conv2D/Conv2DBackpropFilter"), module_of("jit(f)/add")
    ('net.conv1', None)
    >>> module_of("net/lstm/while/body/_25/net/lstm/cell/MatMul")
    'net.lstm.cell'
    """
    parts = op_name.split("/")
    path = [scope for part in parts[:-1] if (scope := _scope(part))]
    if _LOOPS.intersection(parts):
        # Names inside a loop of TensorFlow's begin anew.
        path = path[max((n for n, scope in enumerate(path) if scope == path[0]), default=0) :]
    # A gradient's name ends with the op that it is the gradient of.
    if "gradient_tape" in parts and len(path) > 1 and _OP_SCOPE.match(path[-1]):
        path.pop()
    return ".".join(path) or None


def _scope(part: str) -> str | None:
    wrapped = _WRAPPED.match(part)
    while wrapped and wrapped[1] in _THROUGH:
        part = wrapped[2]
        wrapped = _WRAPPED.match(part)
    return part if _SCOPE.match(part) and not _OWN.match(part) else None


@remembered(65536)
def phase_of(op_name: str) -> str | None:
    """The phase that an op's name tells.

    >>> phase_of("jit(f)/jvp(Net)/dot_general"), phase_of("jit(f)/transpose(jvp(Net))/dot_general")
    ('forward', 'backward')
    >>> phase_of("gradient_tape/net/MatMul"), phase_of("adam/update/Mul"), phase_of("jit(f)/add")
    ('backward', 'optimizer', None)
    """
    parts = op_name.split("/")
    if "transpose(" in op_name or "gradient_tape" in parts:
        return "backward"
    if "jvp(" in op_name:
        return "forward"
    if any(_OPTIMIZER.match(part) for part in parts[:-1]):
        return "optimizer"
    return None


# Libraries whose functions update parameters.
_UPDATES = re.compile(
    r"[/\\](?:optax|optimizers?|flax[/\\]training|nnx[/\\]training)[/\\._]|train_state\.py$"
)


def phase_by_stack(module: Module, instruction: Instruction) -> str | None:
    """The phase that the functions tell that made an instruction: an optimizer's."""
    is_update = any(_UPDATES.search(file) for file, _ in _stack(module, instruction))
    return "optimizer" if is_update else None


def source_of(module: Module, instruction: Instruction) -> str | None:
    """File and line of the program that an instruction was made for: ``train.py:12``.

    The stack's innermost line that is not a library's; TensorFlow keeps only its own.
    """
    stack = _stack(module, instruction)
    if not stack and instruction.file:
        stack = [(instruction.file, instruction.line)]
    own = [place for place in stack if not _LIBRARY.search(place[0])]
    for file, line in own[:1]:
        parts = PureWindowsPath(file) if "\\" in file else PurePath(file)
        return f"{parts.name}:{line}" if line else parts.name
    return None


def _stack(module: Module, instruction: Instruction) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    at = instruction.frame
    while 0 < at <= len(module.frames) and len(found) < _MOST_FRAMES:
        place, at = module.frames[at - 1]
        if 0 < place <= len(module.locations):
            file, _, line = module.locations[place - 1]
            if 0 < file <= len(module.files):
                found.append((module.files[file - 1], line))
    return found


# Whose metadata stands for an instruction that has none: XLA adds copies and fusions without any.

# How far an instruction without metadata is followed to one that has some.
_FARTHEST = 3
_MOST_DEPTH = 8
# Along larger fans nothing is told apart.
_MOST_NEIGHBOURS = 256


def told_by(program: Program, instruction: Instruction) -> Instruction | None:
    """The instruction whose metadata stands for a kernel: the product in it, which may be fused
    with an update of what it is the gradient of; else its own, its result, its nearest neighbour.
    """
    if instruction.op_name and instruction.opcode in CONTAINERS:
        return instruction
    inner = inside(program, instruction)
    products = [one for one in (*inner, instruction) if one.opcode in ("dot", "convolution")]
    named = [one for one in (*products, instruction, *inner[::-1]) if one.op_name]
    return named[0] if named else _neighbour(program, instruction, is_product=bool(products))


def _neighbour(
    program: Program, instruction: Instruction, *, is_product: bool
) -> Instruction | None:
    """The nearest instruction with metadata: for a product first among what it is made of, for a
    copy or the like among what needs it."""
    here = program.computation_of(instruction).instructions
    users = program.users(instruction.computation)
    for upwards in (True, False) if is_product else (False,):
        found = _nearest(here, users, instruction, upwards=upwards)
        if found is not None:
            return found
    return None


def _nearest(
    here: Mapping[int, Instruction], users: Mapping[int, list[int]], instruction: Instruction,
    *, upwards: bool,
) -> Instruction | None:  # fmt: skip
    level = [instruction.id]
    for _ in range(_FARTHEST):
        level = [
            n for at in level if at in here
            for n in (here[at].operands if upwards else users.get(at, ()))
        ][:_MOST_NEIGHBOURS]  # fmt: skip
        named = [here[n] for n in level if n in here and here[n].op_name]
        backward = [one for one in named if phase_of(one.op_name) == "backward"]
        if named:
            return (backward or named)[0]
    return None


def inside(program: Program, instruction: Instruction, depth: int = 0) -> list[Instruction]:
    """The instructions that a fusion, a loop or a call contains."""
    if instruction.opcode not in (*FUSIONS, *CONTAINERS) or depth > _MOST_DEPTH:
        return []
    found: list[Instruction] = []
    for called in instruction.called:
        computation = program.module.computations.get(called)
        for one in computation.instructions.values() if computation is not None else ():
            found.append(one)
            found += inside(program, one, depth + 1)
    return found
