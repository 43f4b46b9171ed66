"""Data types as names spell them: what is in memory, and what a vector unit makes of it."""

from __future__ import annotations

import re

# How a type is spelt -> (data type in memory, short form for people). First match in a text wins.
SPELLINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"(?:c10::|__nv_|__hip_|hip_|cutlass::|std::|at::)?[Bb][Ff]loat16(?:_t)?|__bf16",
        "bf16",
        "bf16",
    ),
    (r"c10::Half|__half2?|Eigen::half|_Float16|(?:cutlass::)?half_t|at::Half", "fp16", "half"),
    (r"(?:c10::)?Float8_\w+|__nv_fp8\w*|(?:cutlass::)?float_e[45]m[23]_t", "fp8", "fp8"),
    (r"(?:cutlass::)?tfloat32_t", "tf32", "tf32"),
    (r"double", "fp64", "double"),
    (r"float(?!\d)", "fp32", "float"),
    (r"signed char|int8_t", "int8", "int8"),
    (r"unsigned long long|unsigned long|long long|long|int64_t", "int64", "long"),
    (r"unsigned char|uint8_t", "uint8", "uchar"),
    (r"unsigned short|short", "int16", "short"),
    (r"unsigned int|int", "int32", "int"),
    (r"bool", "bool", "bool"),
    # Copies by size alone: torch moves elements of so many bytes, whatever they mean.
    *(
        (
            rf"(?:at::native::)?(?:\(anonymous namespace\)::)?OpaqueType<{size}u?>",
            f"bits{8 * size}",
            f"{size} B",
        )
        for size in (1, 2, 4, 8, 16)
    ),
)
_TOKEN = re.compile(
    "|".join(rf"(?P<t{i}>(?<![\w:])(?:{spelt})(?!\w))" for i, (spelt, _, _) in enumerate(SPELLINGS))
)
# Integers are often sizes and indices: a floating type anywhere says more.
FLOATING = frozenset({"bf16", "fp16", "fp8", "tf32", "fp64", "fp32"}) | {
    f"bits{8 * size}" for size in (1, 2, 4, 8, 16)
}

# What vector units compute these in; 16-bit data are widened to fp32 by all libraries we know.
VECTOR_PRECISION = {"fp64": "fp64", "fp32": "fp32", "fp16": "fp32", "bf16": "fp32", "int8": "int8"}


def types_in(text: str) -> list[tuple[str, str]]:
    """All data types in a text in order, as (in memory, for people)."""
    found = (m.lastgroup for m in _TOKEN.finditer(text))
    return [SPELLINGS[int(group[1:])][1:] for group in found if group]


def main_type(text: str) -> tuple[str, str] | None:
    """The data type a text is about: the first floating one, else the first.

    >>> main_type("4, at::native::FillFunctor<c10::Half>"), main_type("int, bool")
    (('fp16', 'half'), ('int32', 'int'))
    """
    types = types_in(text)
    return next((t for t in types if t[0] in FLOATING), types[0] if types else None)
