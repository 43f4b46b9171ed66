"""What an op does, told from its name: the few families that rules ask for."""

from __future__ import annotations

import re

import polars as pl

# Matrix products, convolutions, recurrent layers, attention: work for matrix units.
CONTRACTION = (
    r"(?i)(^|[:_\W])(mm|bmm|addmm|addbmm|baddbmm|matmul|linear|einsum|dot|dot_general|conv([^e\W]\w*)?"
    r"|\w*convolution\w*|\w*gemm\w*|gemv|\w*lstm\w*|\w*gru\w*|\w*rnn\w*|\w*attention\w*"
    r"|inner_product)([:_\W\d]|$)"
)
# The same elements in another order, place or format: no arithmetic at all.
LAYOUT = (
    r"(?i)(reorder|transpose|permute|nchw.?to.?nhwc|nhwc.?to.?nchw|nchwtonhwc|nhwctonchw|contiguous"
    r"|shuffleintensor|swapdimension|layout|convert_?layout|im2col|col2im"
    r"|::(copy_?|clone|_to_copy|cat|stack|contiguous|reshape_copy)$|direct_copy|catarray|^memcpy)"
)
# One output element per input element.
ELEMENTWISE = (
    r"(?i)(::(add|sub|rsub|mul|div|neg|exp|log|sqrt|rsqrt|pow|sin|cos|tanh|sigmoid|relu|gelu|silu"
    r"|hardtanh|leaky_relu|elu|softplus|erf|abs|clamp\w*|where|maximum|minimum|square|reciprocal"
    r"|threshold\w*|dropout|native_dropout|masked_fill|addcmul|addcdiv|lerp|sign|floor|round"
    r"|\w+_backward|logical_\w+|bitwise_\w+|eq|ne|lt|gt|le|ge)_?$|elementwise|pointwise)"
)
NOT_ELEMENTWISE = (
    r"(?i)(conv|norm|softmax|pool|embedding|lstm|gru|rnn|attention|loss|upsample"
    r"|index|select|slice)"
)


def matches(pattern: str) -> pl.Expr:
    """Whether the op, or where there is none the kernel's name, matches."""
    text = pl.coalesce(pl.col("op"), pl.col("name"))
    return text.str.contains(pattern).fill_null(False)


def is_layout() -> pl.Expr:
    """Rows that only move data: by their op, or by the name of a kernel that any op launched."""
    by_op = matches(LAYOUT) & ~matches(CONTRACTION)
    name = pl.col("name")
    by_name = name.str.contains(LAYOUT) & ~name.str.contains(CONTRACTION)
    return by_op | by_name | (pl.col("kind") == "copy")


def is_elementwise() -> pl.Expr:
    """Rows that a compiler would fuse with their neighbours."""
    return matches(ELEMENTWISE) & ~matches(NOT_ELEMENTWISE)


def is_contraction() -> pl.Expr:
    """Rows whose work matrix units could do: FLOPs of contractions where known, else the name."""
    known = pl.col("contraction_flops") > 0
    return (
        pl.when(pl.col("contraction_flops").is_not_null())
        .then(known)
        .otherwise(matches(CONTRACTION))
    )


_DIMS = re.compile(r"[\[(]([\d\s,x×]*)[\])]|\b(\d+(?:\s*[x×]\s*\d+)+)\b")


def shapes_in(text: str | None) -> list[tuple[int, ...]]:
    """The shapes that a text has, in any of the usual notations.

    >>> shapes_in("[[16, 64], [64, 10]]"), shapes_in("16x64 (64, 10)"), shapes_in(None)
    ([(16, 64), (64, 10)], [(16, 64), (64, 10)], [])
    """
    found = []
    for match in _DIMS.finditer(text or ""):
        sizes = tuple(int(s) for s in re.findall(r"\d+", match[1] or match[2] or ""))
        if sizes:
            found.append(sizes)
    return found
