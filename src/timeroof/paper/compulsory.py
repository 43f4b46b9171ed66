"""The least bytes of a published convolution: input and weights read, output written, once."""

from __future__ import annotations

import polars as pl

from timeroof.core.profile import LABEL, Profile
from timeroof.paper.cases import CONV_CHANNELS, CONV_INPUT

COMPULSORY = f"{LABEL}compulsory_bytes"
_WIDTH = {"FP32": 4.0, "FP16": 2.0}


def with_compulsory_bytes(profile: Profile) -> Profile:
    """Label forward convolutions with their compulsory bytes; other passes are not that simple.

    The backward passes of the frameworks are not the same work, and what a recurrent layer must
    move depends on what it may keep.
    """
    conv = (pl.col("op") == "conv2d") & (pl.col("phase") == "forward")
    label = pl.when(conv).then(compulsory_bytes().round().cast(pl.Int64).cast(pl.String))
    return profile.with_kernels(profile.kernels.with_columns(label.alias(COMPULSORY)))


def compulsory_bytes() -> pl.Expr:
    """Bytes of input, weights and output; TensorFlow pads to "same", PyTorch not at all."""
    batch, filters, kernel, stride = (
        pl.col(f"{LABEL}{p}").cast(pl.Float64) for p in ("batch", "filters", "kernel", "stride")
    )
    padded = (CONV_INPUT / stride).ceil()
    bare = ((CONV_INPUT - kernel) / stride).floor() + 1
    side = pl.when(pl.col(f"{LABEL}framework") == "PT").then(bare).otherwise(padded)
    image = batch * CONV_INPUT**2 * CONV_CHANNELS
    weights, output = filters * CONV_CHANNELS * kernel**2, batch * filters * side**2
    width = pl.col(f"{LABEL}precision").replace_strict(_WIDTH, return_dtype=pl.Float64)
    return width * (image + weights + output)
