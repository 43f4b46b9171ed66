"""What a kernel's name says: library, precision, unit, tile, algorithm, pass, and a short name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from timeroof.work.names.algorithms import (
    COLLECTIVES,
    CONTRACTIONS,
    algorithm_of,
    library_of,
    pass_of,
)
from timeroof.work.names.anatomy import LONGEST_NAME, Anatomy, take_apart
from timeroof.work.names.functors import VECTOR_PRECISION, element_type, main_type
from timeroof.work.names.precisions import contraction_precision
from timeroof.work.names.short import short_name
from timeroof.work.names.tiles import tile_of

# What these do has no arithmetic, or none that a name could tell the precision of.
_NO_ARITHMETIC = COLLECTIVES | {"copy", "memset", "layout", "gather", "sort", "setup", "page-fault"}
_ELEMENTWISE = frozenset({"elementwise", "copy", "gather", "dropout", "random"})


@dataclass(frozen=True)
class NameFacts:
    """What a name says. None: it does not say.

    precision is one of `PRECISIONS` (`fp16-tensor`, `fp32`, …): what the kernel computes in.
    storage is the type of its data in memory (`fp16`, `int64`, …).
    pass_name is fprop, dgrad or wgrad of convolutions, forward or backward of the rest.
    """

    short_name: str
    library: str | None = None
    algorithm: str | None = None
    pass_name: str | None = None
    precision: str | None = None
    tensor_core: bool | None = None
    tile: str | None = None
    storage: str | None = None

    @property
    def reduced_work(self) -> bool:
        """Whether the algorithm does fewer multiplications than the definition (Winograd, FFT)."""
        return self.algorithm in ("winograd", "fft")


def read_name(name: str) -> NameFacts:
    """Read a kernel's name; any text is fine, and the time is bounded.

    >>> read_name("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1").short_name
    'cudnn conv fp16 tensor 256x64'
    >>> read_name("Memcpy DtoH (Device -> Pinned)").algorithm
    'copy'
    """
    return _read(name[:LONGEST_NAME])


@lru_cache(maxsize=16384)
def _read(name: str) -> NameFacts:
    parts = take_apart(name)
    algorithm = algorithm_of(parts)
    precision, tensor_core, storage = _arithmetic(parts, algorithm)
    facts = NameFacts(
        short_name="",
        library=library_of(parts),
        algorithm=algorithm,
        pass_name=pass_of(parts, algorithm),
        precision=precision,
        tensor_core=tensor_core,
        tile=tile_of(parts.signature) if algorithm in CONTRACTIONS else None,
        storage=storage,
    )
    return replace(facts, short_name=short_name(parts, facts))


def _arithmetic(
    parts: Anatomy, algorithm: str | None
) -> tuple[str | None, bool | None, str | None]:
    """Precision, tensor-core use and the data type in memory."""
    find = element_type if algorithm in _ELEMENTWISE else main_type
    kind = find(parts.arguments) or main_type(parts.parameters)
    storage = kind[0] if kind else None
    vector = VECTOR_PRECISION.get(storage or "")
    if algorithm is None:
        return None, None, storage
    if algorithm not in CONTRACTIONS:
        return (None if algorithm in _NO_ARITHMETIC else vector), False, storage
    precision, tensor_core = contraction_precision(parts.text)
    if precision is None and tensor_core is None:
        return _unmarked(parts, algorithm, vector, storage)
    return precision, tensor_core, storage or _storage_told(parts.text, precision)


def _storage_told(text: str, precision: str | None) -> str | None:
    """Data in memory of a kernel whose name has no C++ types: `volta_fp16_sgemm_fp16_…`."""
    if precision == "fp32":
        return next((kind for kind in ("bf16", "fp16") if kind in text), "fp32")
    kind = (precision or "").removesuffix("-tensor")
    return {"tf32": "fp32", "": None}.get(kind, kind)


# Libraries whose matrix units always leave a mark in the name: no mark, no matrix unit.
_ALWAYS_MARKED = frozenset({"cudnn", "cublas", "aten", "onednn", "ggml"})


def _unmarked(
    parts: Anatomy, algorithm: str, vector: str | None, storage: str | None
) -> tuple[str | None, bool | None, str | None]:
    """A product whose name has no sign of a matrix unit: the types say what is computed."""
    marked = library_of(parts) in _ALWAYS_MARKED or algorithm == "gemv"
    return vector, (False if marked and vector else None), storage
