"""One call of an op, in words of no framework: a name, shapes, formats and arguments.

A `Call` is hashable, so that equal calls are counted once. Live programs and trace
files both end here; `timeroof.work.recorded` builds calls from what profilers wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple, Union

import msgspec

from timeroof.core.shapes import Shape, Sizes, is_size
from timeroof.core.vocabulary import remembered

# Number formats under one name each, whatever a framework or profiler calls them.


FLOAT, COMPLEX, INTEGER, BOOL, OPAQUE = "float", "complex", "integer", "bool", "opaque"


class Format(NamedTuple):
    """Width and nature of a number format."""

    bits: int
    nature: str


FORMATS: dict[str, Format] = {
    **{f"fp{bits}": Format(bits, FLOAT) for bits in (64, 32, 16, 8, 4)},
    "tf32": Format(32, FLOAT),
    "bf16": Format(16, FLOAT),
    **{f"complex{bits}": Format(bits, COMPLEX) for bits in (32, 64, 128)},
    **{f"int{bits}": Format(bits, INTEGER) for bits in (64, 32, 16, 8, 4)},
    **{f"uint{bits}": Format(bits, INTEGER) for bits in (64, 32, 16, 8)},
    "bool": Format(8, BOOL),
    # The width is known (say, from a kernel's name) but not what the bits mean.
    **{f"bits{bits}": Format(bits, OPAQUE) for bits in (8, 16, 32, 64, 128)},
}

REAL_PART = {"complex32": "fp16", "complex64": "fp32", "complex128": "fp64"}

_SPELLINGS: dict[str, str] = {
    # torch, numpy, TensorFlow
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2": "fp8",
    "float8_e5m2fnuz": "fp8", "float8_e4m3": "fp8", "float8_e8m0fnu": "fp8",
    "float4_e2m1fn_x2": "fp8", "float4_e2m1fn": "fp4", "float4": "fp4",
    "chalf": "complex32", "cfloat": "complex64", "cdouble": "complex128",
    "half": "fp16", "quint8": "uint8", "qint8": "int8", "qint32": "int32",
    "qint16": "int16", "quint16": "uint16", "quint4x2": "uint8",
    "short": "int16", "long": "int64", "byte": "uint8", "char": "int8",
    # C++ names in Kineto traces
    "double": "fp64", "float": "fp32", "long int": "int64", "long long": "int64",
    "long long int": "int64", "int": "int32", "short int": "int16",
    "signed char": "int8", "unsigned char": "uint8", "unsigned short": "uint16",
    "unsigned int": "uint32", "unsigned long": "uint64", "__nv_bfloat16": "bf16", "__half": "fp16",
    "complex<float>": "complex64", "complex<double>": "complex128", "complex<half>": "complex32",
    # XLA and JAX
    "f64": "fp64", "f32": "fp32", "f16": "fp16", "f8e4m3fn": "fp8", "f8e5m2": "fp8",
    "f8e4m3fnuz": "fp8", "f8e5m2fnuz": "fp8", "f8e4m3": "fp8", "f4e2m1fn": "fp4",
    "c64": "complex64", "c128": "complex128", "pred": "bool", "i1": "bool", "boolean": "bool",
    "s64": "int64", "s32": "int32", "s16": "int16", "s8": "int8", "s4": "int4",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "int4",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4",
    # oneDNN
    "f8_e4m3": "fp8", "f8_e5m2": "fp8", "f4_e2m1": "fp4",
}  # fmt: skip

# torch.ScalarType numbers, as they stand in "Concrete Inputs".
_SCALAR_TYPES: tuple[str, ...] = (
    "uint8", "int8", "int16", "int32", "int64", "fp16", "fp32", "fp64",
    "complex32", "complex64", "complex128", "bool", "int8", "uint8", "int32", "bf16",
)  # fmt: skip
_LATER_SCALAR_TYPES = {
    23: "fp8", 24: "fp8", 25: "fp8", 26: "fp8", 27: "uint16", 28: "uint32", 29: "uint64",
    44: "fp8",
}  # fmt: skip


@remembered(1024)
def parse_dtype(text: str) -> str | None:
    """The neutral name of a number format, or None where the text names none.

    >>> parse_dtype("c10::BFloat16"), parse_dtype("torch.float32"), parse_dtype("bf16[8,128]{1,0}")
    ('bf16', 'fp32', 'bf16')
    >>> parse_dtype("long int"), parse_dtype("u8"), parse_dtype("Scalar")
    ('int64', 'uint8', None)
    """
    name = text.strip().split("[", 1)[0].strip().lower()
    for prefix in ("torch.", "c10::", "at::", "np.", "numpy.", "jnp.", "tf.", "dt_"):
        name = name.removeprefix(prefix)
    name = name.replace("c10::", "").removesuffix("_ref")
    return name if name in FORMATS else _SPELLINGS.get(name)


def bytes_of(elements: int, dtype: str) -> int:
    """Bytes of so many elements; those of narrow formats share bytes.

    >>> bytes_of(3, "fp32"), bytes_of(3, "fp4")
    (12, 2)
    """
    bits = FORMATS[dtype].bits
    return elements * (bits // 8) if bits % 8 == 0 else -(-elements * bits // 8)


def scalar_type(number: int) -> str | None:
    """The format behind a number of torch's ScalarType, as traces record dtype arguments.

    >>> scalar_type(15), scalar_type(6), scalar_type(99)
    ('bf16', 'fp32', None)
    """
    if 0 <= number < len(_SCALAR_TYPES):
        return _SCALAR_TYPES[number]
    return _LATER_SCALAR_TYPES.get(number)


def nature(dtype: str) -> str:
    """Whether a format is float, complex, integer, bool or opaque."""
    return FORMATS[dtype].nature if dtype in FORMATS else OPAQUE


def is_floating(dtype: str) -> bool:
    """Whether arithmetic in this format is floating-point arithmetic."""
    return nature(dtype) in (FLOAT, COMPLEX)


_ORDER = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "fp8", "bf16", "fp16", "fp32", "fp64",
    "complex32", "complex64", "complex128",
)  # fmt: skip


def promote(first: str, second: str) -> str:
    """The format of a result of two formats (torch's promotion, which NumPy's resembles).

    >>> promote("fp16", "bf16"), promote("int64", "fp16"), promote("fp32", "bool")
    ('fp32', 'fp16', 'fp32')
    """
    if first == second or second not in _ORDER:
        return first
    if first not in _ORDER:
        return second
    if {first, second} == {"fp16", "bf16"}:
        return "fp32"
    return max(first, second, key=_ORDER.index)


class Tensor(msgspec.Struct, frozen=True, cache_hash=True):
    """Shape, number format and strides (in elements) of a tensor.

    `alias_of` is the place, among the tensors of a call counted from 0, of an earlier
    one with the same data: ``mul(x, x)`` reads one tensor, not two.

    >>> Tensor((2, 3), "fp32").count, Tensor((2, 3), "fp32").size_bytes
    (6, 24)
    """

    shape: tuple[int, ...]
    dtype: str = "fp32"
    strides: tuple[int, ...] | None = None
    alias_of: int | None = None

    @property
    def count(self) -> int:
        """How many elements the shape has."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of a dense tensor of this shape; the format must be a known one."""
        return bytes_of(self.count, self.dtype)


class Unrecorded(msgspec.Struct, frozen=True, cache_hash=True):
    """An argument that was there but whose value nobody wrote down, and why."""

    reason: str = "not recorded"


Arg = Union[Tensor, Unrecorded, int, float, bool, str, None, tuple["Arg", ...]]  # noqa: UP007


class Call(msgspec.Struct, frozen=True, cache_hash=True):
    """An op with its arguments, and its outputs where they were recorded."""

    op: str
    inputs: tuple[Arg, ...] = ()
    outputs: tuple[Tensor, ...] | None = None
    kwargs: tuple[tuple[str, Arg], ...] = ()

    @classmethod
    def of(
        cls, op: str, *inputs: object, outputs: Sequence[Tensor] | None = None, **kwargs: object
    ) -> Call:
        """A call with lists turned into tuples, and keyword arguments in order.

        >>> Call.of("aten::sum", Tensor((2, 3)), [0], keepdim=True).inputs[1]
        (0,)
        """
        return cls(
            op,
            tuple(frozen(v) for v in inputs),
            None if outputs is None else tuple(outputs),
            tuple(sorted((k, frozen(v)) for k, v in kwargs.items())),
        )


def input_shape(call: Call) -> Shape | None:
    """The sizes of a call's input tensors, lists of them one by one; None where one is unknown.

    >>> input_shape(Call.of("aten::cat", [Tensor((2, 3)), Tensor(())])), input_shape(Call("x"))
    (((2, 3), ()), None)
    """
    shape = tuple(_sizes(call.inputs))
    known = all(is_size(size) for sizes in shape for size in sizes)
    return shape if shape and known else None


def _sizes(value: Arg) -> Iterator[Sizes]:
    if isinstance(value, Tensor):
        yield value.shape
    elif isinstance(value, tuple):
        for part in value:
            yield from _sizes(part)


def frozen(value: object) -> Arg:
    """A value as a call can hold it: lists as tuples, what is strange as unrecorded.

    >>> frozen([1, [2, 3], None])
    (1, (2, 3), None)
    >>> frozen(object)
    Unrecorded(reason='a value of type type')
    """
    if value is None or isinstance(value, Tensor | Unrecorded | int | float | str):
        return value
    if isinstance(value, Mapping):
        return tuple((str(k), frozen(v)) for k, v in value.items())
    if isinstance(value, Sequence | set | frozenset):
        return tuple(frozen(v) for v in value)
    return Unrecorded(f"a value of type {type(value).__name__}")


# Reading the arguments of a call; what cannot be read is a reason, not an exception to users.


MAX_ELEMENTS = 1 << 62


class UncountableError(Exception):
    """Why a call cannot be counted. Caught by `count`, which returns it as a reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def tensor(value: Arg, what: str = "a tensor") -> Tensor:
    """The argument as a tensor with whole, non-negative sizes and a known format."""
    found = shaped(value, what)
    if found.dtype not in FORMATS:
        raise UncountableError(f"number format of {what} is {found.dtype or 'not recorded'}")
    return found


def shaped(value: Arg, what: str = "a tensor") -> Tensor:
    """The argument as a tensor whose format may be unknown."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if not isinstance(value, Tensor):
        raise UncountableError(f"{what} is missing")
    for size in value.shape:
        if not isinstance(size, int) or isinstance(size, bool):
            raise UncountableError(f"{what} has the symbolic size {size!r}")
        if size < 0:
            raise UncountableError(f"{what} has the negative size {size}")
    if value.count > MAX_ELEMENTS:
        raise UncountableError(f"{what} has an impossible size")
    return value


def ranked(value: Arg, what: str, *ranks: int) -> Tensor:
    """The argument as a tensor with one of these numbers of dimensions."""
    found = tensor(value, what)
    if len(found.shape) not in ranks:
        raise UncountableError(f"{what} has {len(found.shape)} dimensions")
    return found


def optional(value: Arg, what: str = "a tensor") -> Tensor | None:
    """The argument as a tensor, or None where there is none."""
    return tensor(value, what) if isinstance(value, Tensor) else None


def tensors(value: Arg, what: str = "a list of tensors") -> tuple[Tensor, ...]:
    """The argument as tensors: one, or a list of them (absent entries left out)."""
    if isinstance(value, Tensor):
        return (tensor(value, what),)
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if not isinstance(value, tuple):
        raise UncountableError(f"{what} is missing")
    return tuple(tensor(v, what) for v in value if v is not None)


def every_tensor(*values: Arg) -> Iterator[Tensor]:
    """All tensors in some arguments, lists opened."""
    for value in values:
        if isinstance(value, Tensor):
            yield tensor(value)
        elif isinstance(value, tuple):
            yield from every_tensor(*value)


def integer(value: Arg, what: str) -> int:
    """The argument as a whole number."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise UncountableError(f"{what} is missing")
    return int(value)


def integers(value: Arg, what: str, count: int | None = None) -> tuple[int, ...]:
    """The argument as whole numbers; a single one is repeated `count` times."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if isinstance(value, int):
        return (int(value),) * (count or 1)
    if not isinstance(value, tuple):
        raise UncountableError(f"{what} is missing")
    found = tuple(integer(v, what) for v in value)
    if count is not None and len(found) == 1:
        found *= count
    if count is not None and len(found) != count:
        raise UncountableError(f"{what} has {len(found)} numbers instead of {count}")
    return found


def flag(value: Arg, what: str, default: bool | None = None) -> bool:
    """The argument as yes or no; unrecorded is an error unless there is a default."""
    if isinstance(value, bool | int):
        return bool(value)
    if default is None:
        raise UncountableError(f"{what} is not recorded")
    return default


def flags(value: Arg, what: str, count: int) -> tuple[bool, ...]:
    """The argument as a mask, such as which gradients are wanted."""
    if not isinstance(value, tuple) or len(value) < count:
        raise UncountableError(f"{what} is not recorded")
    return tuple(flag(v, what) for v in value)


def number(value: Arg, default: float) -> float:
    """The argument as a number, or the default."""
    return float(value) if isinstance(value, int | float) else default


def dtype_of(value: Arg) -> str | None:
    """The number format that an argument names: a word, or torch's number for it."""
    if isinstance(value, str):
        return parse_dtype(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return scalar_type(value)
    return None
