"""Number formats under one name each, whatever a framework or profiler calls them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

FLOAT, COMPLEX, INTEGER, BOOL, OPAQUE = "float", "complex", "integer", "bool", "opaque"


class Format(NamedTuple):
    """Width and nature of a number format."""

    bits: int
    nature: str


FORMATS: dict[str, Format] = {
    "fp64": Format(64, FLOAT),
    "fp32": Format(32, FLOAT),
    "tf32": Format(32, FLOAT),
    "fp16": Format(16, FLOAT),
    "bf16": Format(16, FLOAT),
    "fp8": Format(8, FLOAT),
    "fp4": Format(4, FLOAT),
    "complex32": Format(32, COMPLEX),
    "complex64": Format(64, COMPLEX),
    "complex128": Format(128, COMPLEX),
    "int64": Format(64, INTEGER),
    "int32": Format(32, INTEGER),
    "int16": Format(16, INTEGER),
    "int8": Format(8, INTEGER),
    "int4": Format(4, INTEGER),
    "uint64": Format(64, INTEGER),
    "uint32": Format(32, INTEGER),
    "uint16": Format(16, INTEGER),
    "uint8": Format(8, INTEGER),
    "bool": Format(8, BOOL),
    # The width is known (say, from a kernel's name) but not what the bits mean.
    "bits8": Format(8, OPAQUE),
    "bits16": Format(16, OPAQUE),
    "bits32": Format(32, OPAQUE),
    "bits64": Format(64, OPAQUE),
    "bits128": Format(128, OPAQUE),
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


@lru_cache(maxsize=1024)
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
