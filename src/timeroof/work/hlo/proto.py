"""HloProto, XLA's optimised program, from its wire format: no protobuf runtime, no framework.

The bytes are in the ``/host:metadata`` plane of every xplane.pb (CPU, GPU, TPU); a live JAX
program gives those of a module by ``as_serialized_hlo_module_proto()``, TensorFlow by
``experimental_get_compiler_ir(stage="optimized_hlo_proto_serialized")``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import prod

from timeroof.core.wire import Span, fields, integers, signed, text
from timeroof.work.call import parse_dtype

_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token",
    18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz",
    24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4",
    30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu",
}  # fmt: skip
TUPLE = "tuple"
_SIZELESS = (TUPLE, "opaque", "token")
# Wider ones by name: f32 has 32 bits; what is narrower than a byte has one unless a layout packs it
_BITS = {"pred": 8, "c64": 64, "c128": 128, "bf16": 16}
# No program nests its tuples or calls deeper; bytes that do were made to harm.
MOST_NESTED = 64

Fields = dict[int, list[int | Span]]


def _message(data: bytes, span: Span) -> Fields:
    """All fields of a message by number."""
    found: Fields = {}
    for number, value in fields(data, span):
        found.setdefault(number, []).append(value)
    return found


def _number(message: Fields, number: int, default: int = 0) -> int:
    value = message.get(number)
    return signed(value[-1]) if value else default


def _text(data: bytes, message: Fields, number: int) -> str:
    value = message.get(number)
    return text(data, value[-1]) if value else ""


def _integers(data: bytes, message: Fields, number: int) -> tuple[int, ...]:
    return tuple(n for value in message.get(number, ()) for n in integers(data, value))


def _spans(message: Fields, number: int) -> list[Span]:
    return [value for value in message.get(number, ()) if isinstance(value, tuple)]


@dataclass(frozen=True, slots=True)
class Shape:
    """An array's format and sizes, or a tuple of shapes."""

    dtype: str
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    # Where a layout packs elements, their bits; and which memory it says the array is in.
    packed_bits: int = 0
    memory_space: int = 0

    @property
    def count(self) -> int:
        """Elements; of a tuple those of its parts."""
        return sum(p.count for p in self.parts) if self.dtype == TUPLE else prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """Bytes of the array; of a tuple those of its parts."""
        if self.dtype == TUPLE:
            return sum(part.size_bytes for part in self.parts)
        if self.dtype in _SIZELESS:
            return 0
        bits = self.packed_bits or _bits(self.dtype)
        return self.count * (bits // 8) if bits % 8 == 0 else -(-self.count * bits // 8)

    @property
    def format(self) -> str:
        """The number format in our words; of a tuple that of its first array."""
        if self.dtype == TUPLE:
            return self.parts[0].format if self.parts else "fp32"
        return parse_dtype(self.dtype) or ("fp8" if self.dtype.startswith("f8") else self.dtype)

    def __str__(self) -> str:
        if self.dtype == TUPLE:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


def _bits(dtype: str) -> int:
    if dtype in _BITS:
        return _BITS[dtype]
    if dtype.startswith("f8"):
        return 8
    digits = "".join(c for c in dtype[1:3] if c.isdigit())
    return max(int(digits), 8) if digits else 8


def _shape(data: bytes, span: Span, depth: int = 0) -> Shape:
    read = _message(data, span)
    dtype = _TYPES.get(_number(read, 2), "opaque")
    parts = (
        () if depth > MOST_NESTED else tuple(_shape(data, s, depth + 1) for s in _spans(read, 4))
    )
    bits = space = 0
    for layout in _spans(read, 5):
        told = _message(data, layout)
        bits, space = _number(told, 7), _number(told, 8)
    dims = tuple(max(n, 0) for n in _integers(data, read, 3))
    return Shape(dtype, dims, parts, bits if 0 < bits <= 128 else 0, space)


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window; `base` is the distance of the input's elements."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base: int = 1


def _window(data: bytes, span: Span) -> tuple[WindowDim, ...]:
    found = []
    for one in _spans(_message(data, span), 1):
        read = _message(data, one)
        low, high = _number(read, 3), _number(read, 4)
        size, stride, dilation, base = (max(_number(read, n), 1) for n in (1, 2, 5, 6))
        found.append(WindowDim(size, stride, low, high, dilation, base))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ConvNumbers:
    """Which dimension of input, kernel and result is which."""

    in_batch: int
    in_feature: int
    in_spatial: tuple[int, ...]
    kernel_in: int
    kernel_out: int
    out_batch: int
    out_feature: int
    out_spatial: tuple[int, ...]


def _conv_numbers(data: bytes, span: Span) -> ConvNumbers:
    read = _message(data, span)
    x_batch, x_feature, k_in, k_out, batch, feature = (
        _number(read, number) for number in (7, 8, 3, 4, 9, 10)
    )
    x, out = (_integers(data, read, number) for number in (11, 12))
    return ConvNumbers(x_batch, x_feature, x, k_in, k_out, batch, feature, out)


@dataclass(frozen=True, slots=True)
class DotNumbers:
    """Contracted and batch dimensions of both operands."""

    lhs_contracted: tuple[int, ...] = ()
    rhs_contracted: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


def _dot_numbers(data: bytes, span: Span) -> DotNumbers:
    read = _message(data, span)
    return DotNumbers(*(_integers(data, read, n) for n in (1, 2, 3, 4)))


@dataclass(slots=True)
class Instruction:
    """One instruction of a program."""

    name: str = ""
    opcode: str = ""
    shape: Shape = Shape("opaque")
    id: int = 0
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    op_name: str = ""
    op_type: str = ""
    file: str = ""
    line: int = 0
    frame: int = 0
    parameter: int = 0
    tuple_index: int = 0
    dims: tuple[int, ...] = ()
    window: tuple[WindowDim, ...] = ()
    conv: ConvNumbers | None = None
    dot: DotNumbers | None = None
    groups: int = 1
    batch_groups: int = 1
    target: str = ""
    config: str = ""
    fft_length: tuple[int, ...] = ()
    group_size: int | None = None
    computation: int = 0

    @property
    def settings(self) -> dict[str, object]:
        """The backend's settings, where they are JSON."""
        if not self.config.startswith("{"):
            return {}
        try:
            read = json.loads(self.config)
        except (ValueError, RecursionError):
            return {}
        return read if isinstance(read, dict) else {}

    @property
    def trip_count(self) -> int | None:
        """How often a loop runs, where XLA's passes found out."""
        known = self.settings.get("known_trip_count")
        count = known.get("n") if isinstance(known, dict) else None
        return int(count) if isinstance(count, int | str) and str(count).isdecimal() else None


def _instruction(data: bytes, span: Span, computation: int) -> Instruction:
    read = _message(data, span)
    shapes, metadata = _spans(read, 3), _spans(read, 7)
    said = _message(data, metadata[-1]) if metadata else {}
    window, conv, dot = (_spans(read, n) for n in (15, 16, 30))
    return Instruction(
        name=_text(data, read, 1),
        opcode=_text(data, read, 2),
        shape=_shape(data, shapes[-1]) if shapes else Shape("opaque"),
        id=_number(read, 35),
        operands=_integers(data, read, 36),
        called=_integers(data, read, 38),
        op_type=_text(data, said, 1),
        op_name=_text(data, said, 2),
        file=_text(data, said, 3),
        line=_number(said, 4),
        frame=_number(said, 15),
        parameter=_number(read, 9),
        tuple_index=_number(read, 13),
        dims=_integers(data, read, 14),
        window=_window(data, window[-1]) if window else (),
        conv=_conv_numbers(data, conv[-1]) if conv else None,
        dot=_dot_numbers(data, dot[-1]) if dot else None,
        groups=max(_number(read, 50, 1), 1),
        batch_groups=max(_number(read, 58, 1), 1),
        target=_text(data, read, 28),
        config=_text(data, read, 43),
        fft_length=_integers(data, read, 32),
        group_size=_group_size(data, read),
        computation=computation,
    )


def _group_size(data: bytes, read: Fields) -> int | None:
    """Devices of one group of a collective, where the instruction lists them."""
    groups = _spans(read, 49)
    for listed in _spans(read, 87):
        inner = _message(data, listed)
        groups += _spans(inner, 1)
        for iota in _spans(inner, 2):
            if size := _number(_message(data, iota), 2):
                return size
    sizes = {len(_integers(data, _message(data, group), 1)) for group in groups}
    return max(sizes) if sizes and max(sizes) > 0 else None


@dataclass(slots=True)
class Computation:
    """Instructions in an order in which operands come first."""

    name: str = ""
    id: int = 0
    root: int = 0
    instructions: dict[int, Instruction] = field(default_factory=dict)

    def named(self, of: Instruction) -> list[Instruction]:
        """The operands of an instruction, as far as they are here."""
        return [self.instructions[i] for i in of.operands if i in self.instructions]


@dataclass(slots=True)
class Allocation:
    """A piece of memory and which buffers lie where in it: (buffer, offset, size)."""

    index: int
    size_bytes: int
    is_parameter: bool
    is_constant: bool
    is_live_out: bool
    assigned: list[tuple[int, int, int]]


@dataclass(slots=True)
class Module:
    """A program: computations, and where its arrays lie."""

    name: str = ""
    id: int = 0
    entry: int = 0
    computations: dict[int, Computation] = field(default_factory=dict)
    schedule: dict[int, tuple[int, ...]] = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    # Which instruction, and which part of its result, a logical buffer holds.
    buffers: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    locations: list[tuple[int, int, int]] = field(default_factory=list)
    frames: list[tuple[int, int]] = field(default_factory=list)
    # Devices that run it together, where it was compiled for some.
    device_count: int | None = None

    def ordered(self, computation: int) -> list[Instruction]:
        """Instructions of a computation as they run."""
        own = self.computations[computation].instructions
        order = [i for i in self.schedule.get(computation, ()) if i in own]
        return [own[i] for i in order] if len(order) == len(own) else list(own.values())


def read_hlo(data: bytes) -> Module:
    """The module of a serialised HloProto, with its buffer assignment."""
    read = _message(data, (0, len(data)))
    modules = _spans(read, 1)
    module = _module(data, modules[-1]) if modules else Module()
    for span in _spans(read, 3):
        _add_buffers(data, span, module)
    return module


def read_module(data: bytes) -> Module:
    """The module of a serialised HloModuleProto."""
    return _module(data, (0, len(data)))


def _module(data: bytes, span: Span) -> Module:
    read = _message(data, span)
    module = Module(_text(data, read, 1), _number(read, 5), _number(read, 6))
    for one in _spans(read, 3):
        found = _computation(data, one)
        module.computations[found.id] = found
    for schedule in _spans(read, 7):
        for entry in _spans(_message(data, schedule), 1):
            pair = _message(data, entry)
            for sequence in _spans(pair, 2):
                order = _integers(data, _message(data, sequence), 1)
                module.schedule[_number(pair, 1)] = order
    for index in _spans(read, 17):
        _add_frames(data, index, module)
    for assigned in _spans(read, 15):
        told = _message(data, assigned)
        module.device_count = max(_number(told, 1), 1) * max(_number(told, 2), 1)
    return module


def _computation(data: bytes, span: Span) -> Computation:
    read = _message(data, span)
    made = Computation(_text(data, read, 1), _number(read, 5), _number(read, 6))
    for one in _spans(read, 2):
        instruction = _instruction(data, one, made.id)
        made.instructions[instruction.id] = instruction
    return made


def _add_frames(data: bytes, span: Span, module: Module) -> None:
    """Stack frames: files and functions by number, locations, and frames with their callers."""
    read = _message(data, span)
    module.files += [text(data, s) for s in _spans(read, 1)]
    module.functions += [text(data, s) for s in _spans(read, 2)]
    for one in _spans(read, 3):
        place = _message(data, one)
        module.locations.append((_number(place, 1), _number(place, 2), _number(place, 3)))
    for one in _spans(read, 4):
        frame = _message(data, one)
        module.frames.append((_number(frame, 1), _number(frame, 2)))


def _add_buffers(data: bytes, span: Span, module: Module) -> None:
    read = _message(data, span)
    for one in _spans(read, 1):
        buffer = _message(data, one)
        for place in _spans(buffer, 3):
            where = _message(data, place)
            module.buffers[_number(buffer, 1)] = (_number(where, 4), _integers(data, where, 3))
    for one in _spans(read, 3):
        told = _message(data, one)
        parts = [_message(data, s) for s in _spans(told, 9)]
        module.allocations.append(
            Allocation(
                index=_number(told, 1),
                size_bytes=_number(told, 2),
                is_parameter=bool(_number(told, 5)),
                is_live_out=bool(_number(told, 7)),
                is_constant=bool(_number(told, 12)),
                assigned=[(_number(p, 1), _number(p, 2), _number(p, 3)) for p in parts],
            )
        )
