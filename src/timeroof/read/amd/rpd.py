"""RPD: the SQLite database of AMD's rocmProfileData (rpd_tracer), the ancestor of rocpd.

Work of the device is in `rocpd_op`, calls of the host in `rocpd_api`, and `rocpd_api_ops` says
which call started which work. Texts are numbers of `rocpd_string`.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.amd.counters import copies_of, profile_of_run
from timeroof.read.events import Whole, kernel_kind
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Input
from timeroof.read.sqlite import Database, open_database

_PROCESS = 0
_TIMES = (pl.col("start").alias("start_ns"), pl.col("end").alias("end_ns"))
# Kinds of work as roctracer calls them; barriers and markers keep no unit of the device busy.
_COPY, _FILL, _NO_WORK = r"(?i)copy", r"(?i)fill|memset", r"(?i)barrier|marker"
_WAYS = {
    "hosttodevice": "HOST_TO_DEVICE", "devicetohost": "DEVICE_TO_HOST",
    "devicetodevice": "DEVICE_TO_DEVICE", "peertopeer": "DEVICE_TO_DEVICE",
}  # fmt: skip
_AXES = tuple(f"{what}{axis}" for what in ("grid", "workgroup") for axis in "XYZ")


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all work in the database."""
    with open_database(found.only) as database:
        work, calls = _work(database), _calls(database)
        sizes = _sizes(database)
    kind, said = pl.col("type").fill_null(""), pl.col("name").fill_null("")
    is_fill = kind.str.contains(_FILL)
    is_copy = kind.str.contains(_COPY) & ~is_fill
    is_kernel = ~is_copy & ~is_fill & ~kind.str.contains(_NO_WORK) & (said != "")
    kernels = work.filter(is_kernel)
    if not kernels.height:
        advice = "record the program's kernels with rpd_tracer"
        raise InputError("has no kernel among its ops", found.name, advice)
    source = source_of("rocmProfileData", found)
    fills = work.filter(is_fill).with_columns(pl.col("type").alias("name"))
    tables = [
        _events(kernels.join(sizes, on="correlation", how="left", maintain_order="left"), None),
        _events(fills, "memset"),
    ]
    copies = copies_of(_copies(work.filter(is_copy), sizes), _PROCESS)
    return profile_of_run([t for t in tables if t.height], None, [copies], calls, Whole(source))


def _strings(database: Database) -> pl.DataFrame:
    schema = {"id": pl.Int64, "string": pl.String}
    return database.read("rocpd_string", schema).unique("id", keep="first")


def _named(table: pl.DataFrame, strings: pl.DataFrame, **columns: str) -> pl.DataFrame:
    """Columns of numbers as the texts that they stand for."""
    for text, number in columns.items():
        texts = strings.rename({"id": number, "string": text})
        table = table.join(texts, on=number, how="left", maintain_order="left")
    return table


def _work(database: Database) -> pl.DataFrame:
    """Everything that devices did, with the call that started it."""
    numbers = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
    raw = database.read("rocpd_op", dict.fromkeys(numbers, pl.Int64))
    links = database.read("rocpd_api_ops", {"api_id": pl.Int64, "op_id": pl.Int64})
    links = links.select(pl.col("op_id").alias("id"), pl.col("api_id").alias("correlation"))
    raw = raw.join(links.unique("id", keep="first"), on="id", how="left", maintain_order="left")
    return _named(raw, _strings(database), name="description_id", type="opType_id")


def _calls(database: Database) -> pl.DataFrame:
    numbers = ("id", "tid", "start", "end", "apiName_id")
    raw = database.read("rocpd_api", dict.fromkeys(numbers, pl.Int64))
    raw = _named(raw, _strings(database), name="apiName_id")
    return raw.select(
        pl.lit(_PROCESS, pl.Int64).alias("process"),
        pl.col("id").alias("correlation"),
        pl.col("tid").alias("thread"),
        *_TIMES,
        pl.col("name").fill_null(""),
        pl.lit("").alias("category"),
    ).drop_nulls(["start_ns", "end_ns"])


def _sizes(database: Database) -> pl.DataFrame:
    """Grids of launches and bytes of copies, by the call."""
    kernel = database.read("rocpd_kernelapi", dict.fromkeys(("api_ptr_id", *_AXES), pl.Int64))
    copy = database.read("rocpd_copyapi", {"api_ptr_id": pl.Int64, "size": pl.Float64})
    both = [t.unique("api_ptr_id", keep="first") for t in (kernel, copy)]
    joined = both[0].join(both[1], on="api_ptr_id", how="full", coalesce=True)
    return joined.rename({"api_ptr_id": "correlation"})


def _places() -> list[pl.Expr]:
    return [
        pl.col("gpuId").fill_null(0).cast(pl.String).alias("gpu"),
        pl.col("queueId").fill_null(0).cast(pl.String).alias("stream"),
        pl.lit(None, pl.String).alias("device"),
    ]


def _events(table: pl.DataFrame, kind: str | None) -> pl.DataFrame:
    has_grid = "gridX" in table.columns
    grid = [pl.col(f"grid{axis}") for axis in "XYZ"] if has_grid else []
    block = [pl.col(f"workgroup{axis}") for axis in "XYZ"] if has_grid else []
    shown = [pl.format("{}x{}x{}", *sizes) for sizes in (grid, block) if sizes]
    labels = [s.alias(f"label.{n}") for s, n in zip(shown, ("grid", "block"), strict=False)]
    return table.select(
        kernel_kind() if kind is None else pl.lit(kind).alias("kind"),
        *("name", "correlation"),
        *_TIMES,
        *_places(),
        *labels,
        pl.lit(_PROCESS, pl.Int64).alias("process"),
    )


def _copies(table: pl.DataFrame, of_calls: pl.DataFrame) -> pl.DataFrame:
    """Copies with their way and bytes."""
    plain = pl.col("type").str.to_lowercase().str.extract(f"({'|'.join(_WAYS)})")
    sizes = of_calls.select("correlation", "size")
    table = table.join(sizes, on="correlation", how="left", maintain_order="left")
    way = plain.replace_strict(_WAYS, default=None, return_dtype=pl.String)
    return table.select(
        pl.coalesce(way, "type").alias("way"), *_TIMES, *_places(), "correlation", "size"
    )
