"""What stays of a name between torch versions, backends and GPU generations.

An op keeps its work when its overload, its in-place form or its backend's prefix changes, and a
kernel when it is compiled for another architecture or with another tile. Three columns say so, from
strict to loose: `plain_op` (no overload), `family` (one word for ops that do the same work) and
`stem` (a kernel's name without architecture, tile, template and numbers).
"""

from __future__ import annotations

import polars as pl

# Ops that do the same work under different names; the first pattern that fits wins. Names are
# those of `plain_op`: without namespace, leading underscores and overload.
_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"^\w*conv(olution)?(\d?d)?(_overrideable)?_?backward\w*$", "convolution_backward"),
    (r"^\w*conv(olution)?(_transpose)?(\d?d)?(_overrideable)?$", "convolution"),
    (r"^\w*scaled_dot_product\w*backward\w*$|^\w*attention_backward\w*$", "attention_backward"),
    (r"^\w*scaled_dot_product\w*$|^\w*attention\w*forward\w*$", "attention"),
    (r"^(addmm|mm|linear|matmul|(mkl|mkldnn)_linear\w*|scaled_mm|addmm_activation)$", "product"),
    (r"^(bmm|baddbmm)$", "batched product"),
    (r"^\w*batch_norm\w*backward\w*$", "batch_norm_backward"),
    (r"^\w*batch_norm\w*$", "batch_norm"),
    (r"^(native_)?(layer_norm|group_norm|instance_norm|rms_norm)_backward$", "norm_backward"),
    (r"^\w*rms_norm$|^(native_)?(layer|group|instance)_norm$", "norm"),
    (r"^(log_)?softmax_backward\w*$", "softmax_backward"),
    (r"^(log_|safe_)?softmax$", "softmax"),
    (r"^\w*lstm\w*backward\w*$", "lstm_backward"),
    (r"^\w*lstm\w*$|^thnn_fused_lstm_cell$", "lstm"),
    (r"^(\w*foreach\w*|fused_(adamw?|sgd|adagrad)\w*)$", "optimizer update"),
    (r"^(copy|clone|to_copy|contiguous|to)$", "copy"),
    (r"^(\w*max_pool\w*)backward\w*$", "max_pool_backward"),
    (r"^\w*max_pool\w*$", "max_pool"),
)
# Words of architectures and libraries' generations in kernel names, and sizes of tiles.
_ARCHITECTURE = (
    r"\b(maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+[a-z]?|gfx\d\w*|cutlass"
    r"|nvjet|xmma|cudnn|cublas|cublaslt|v\d+|\d+(x\d+)*[a-z]?)\b"
)


def with_plain_names(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `plain_op`, `family` and `stem` to rows that have `op` and `name`.

    >>> rows = pl.DataFrame({"op": ["aten::add_.Tensor", "aten::cudnn_convolution", None],
    ...                      "name": ["a", "b", "ampere_sgemm_128x64_nn"]})
    >>> [tuple(r) for r in with_plain_names(rows).select("plain_op", "family", "stem").rows()]
    [('add', 'add', 'a'), ('cudnn_convolution', 'convolution', 'b'), (None, None, 'sgemm nn')]
    """
    return rows.with_columns(_plain_op().alias("plain_op"), _stem().alias("stem")).with_columns(
        _family().alias("family")
    )


def _plain_op() -> pl.Expr:
    """The op without namespace, overload, leading underscores and the mark of in-place forms."""
    bare = pl.col("op").str.replace(r"^\w+(::|\.)", "").str.replace(r"\.\w+$", "")
    return bare.str.replace(r"^_+(\w)", "$1").str.replace(r"(\w)_$", "$1")


def _family() -> pl.Expr:
    op = pl.col("plain_op")
    found = pl.coalesce(
        pl.when(op.str.contains(pattern)).then(pl.lit(name)) for pattern, name in _FAMILIES
    )
    return pl.coalesce(found, op)


def _stem() -> pl.Expr:
    """A kernel's name without what a compiler for another chip would change."""
    words = pl.col("name").str.to_lowercase().str.replace_all(r"_+", " ")
    words = words.str.replace_all(_ARCHITECTURE, "").str.replace_all(r"\s+", " ")
    stem = words.str.strip_chars(" ")
    return pl.when(stem.str.len_chars() >= 1).then(stem).otherwise(pl.col("name"))
