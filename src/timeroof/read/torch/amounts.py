"""Amounts that a trace records by itself: bytes of copies and memsets, messages of collectives."""

from __future__ import annotations

import polars as pl

# A copy within a device reads and writes its memory; one that enters or leaves does one of both.
_DRAM_PASSES = {"DtoD": 2.0, "HtoD": 1.0, "DtoH": 1.0, "PtoP": 1.0, "Memset": 1.0}
_HOST_LINK, _PEER_LINKS = "link/pcie", (("nvidia", "link/nvlink"), ("tesla", "link/nvlink"),
                                        ("amd", "link/infinity-fabric"))  # fmt: skip
# Within one node all ranks see one another over the fast link; beyond nobody knows.
_NODE_RANKS = 8


def copy_amounts(rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes of copies and memsets as memory and link amounts; kernels' bytes stay unknown."""
    way = pl.col("name").str.extract(r"(DtoD|HtoD|DtoH|PtoP|Memset)")
    passes = way.replace_strict(_DRAM_PASSES, default=None, return_dtype=pl.Float64)
    moves = pl.col("kind").is_in(["copy", "memset"])
    if not rows["kind"].is_in(["copy", "memset"]).any():
        return rows.drop("bytes")
    over_host = moves & way.is_in(["HtoD", "DtoH"])
    return rows.with_columns(
        pl.when(moves).then(pl.col("bytes") * passes).alias("byte/dram"),
        pl.when(over_host).then(pl.col("bytes")).otherwise(0.0).alias(_HOST_LINK),
        pl.when(moves & pl.col("bytes").is_not_null())
        .then(pl.lit("measured"))
        .alias("origin.bytes/dram"),
    ).drop("bytes")


def link_column(rows: pl.DataFrame, device: str | None) -> pl.DataFrame:
    """What collectives within a node send, as an amount of the vendor's link between devices."""
    link = peer_link(device)
    talks = pl.col("kind") == "collective"
    if link is None or not (rows["kind"] == "collective").any():
        return rows.drop("link_bytes")
    if "label.group_size" not in rows.columns:
        sent = pl.lit(None, pl.Float64)
    else:
        near = pl.col("label.group_size").cast(pl.Int64, strict=False) <= _NODE_RANKS
        sent = pl.when(near).then(pl.col("link_bytes"))
    return rows.with_columns(pl.when(talks).then(sent).otherwise(0.0).alias(link)).drop(
        "link_bytes"
    )


def peer_link(device: str | None) -> str | None:
    """The link between devices of a vendor.

    >>> peer_link("NVIDIA H100 80GB HBM3"), peer_link("AMD Instinct MI300X"), peer_link(None)
    ('link/nvlink', 'link/infinity-fabric', None)
    """
    name = (device or "").lower()
    return next((link for word, link in _PEER_LINKS if word in name), None)
