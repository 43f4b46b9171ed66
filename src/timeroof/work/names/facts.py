"""What a kernel's name says: library, precision, unit, tile, algorithm, pass, and a short name."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
import polars as pl

from timeroof.core.vocabulary import LONGEST_NAME
from timeroof.work.names import algorithms, anatomy
from timeroof.work.names.algorithms import COLLECTIVES, CONTRACTIONS, CONVOLUTIONS
from timeroof.work.names.anatomy import Anatomy, element_type, main_type, operation_in

# What these do has no arithmetic, or none that a name could tell the precision of.
_NO_ARITHMETIC = COLLECTIVES | {"copy", "memset", "layout", "gather", "sort", "setup", "page-fault"}
_ELEMENTWISE = frozenset({"elementwise", "copy", "gather", "dropout", "random"})


class NameFacts(msgspec.Struct, frozen=True):
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
    parts = anatomy.take_apart(name)
    algorithm = algorithms.algorithm_of(parts)
    precision, tensor_core, storage = _arithmetic(parts, algorithm)
    facts = NameFacts(
        short_name="",
        library=algorithms.library_of(parts),
        algorithm=algorithm,
        pass_name=algorithms.pass_of(parts, algorithm),
        precision=precision,
        tensor_core=tensor_core,
        tile=anatomy.tile_of(parts.signature) if algorithm in CONTRACTIONS else None,
        storage=storage,
    )
    return msgspec.structs.replace(facts, short_name=short_name(parts, facts))


def _arithmetic(
    parts: Anatomy, algorithm: str | None
) -> tuple[str | None, bool | None, str | None]:
    """Precision, tensor-core use and the data type in memory."""
    find = element_type if algorithm in _ELEMENTWISE else main_type
    kind = find(parts.arguments) or main_type(parts.parameters)
    storage = kind[0] if kind else None
    vector = anatomy.VECTOR_PRECISION.get(storage or "")
    if algorithm is None:
        return None, None, storage
    if algorithm not in CONTRACTIONS:
        return (None if algorithm in _NO_ARITHMETIC else vector), False, storage
    precision, tensor_core = algorithms.contraction_precision(parts.text)
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
    marked = algorithms.library_of(parts) in _ALWAYS_MARKED or algorithm == "gemv"
    return vector, (False if marked and vector else None), storage


# Facts of many names at once, as columns.


_COLUMNS: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(["name", *NameFacts.__struct_fields__], pl.String),
    "tensor_core": pl.Boolean,
}


def name_facts_table(names: pl.Series) -> pl.DataFrame:
    """One row per distinct name, in order of first appearance; join it on `name`.

    >>> name_facts_table(pl.Series(["volta_sgemm_128x64_nn", None]))["precision"].to_list()
    ['fp32']
    """
    distinct = names.cast(pl.String).drop_nulls().unique(maintain_order=True).to_list()
    rows = [{"name": name, **msgspec.structs.asdict(read_name(name))} for name in distinct]
    return pl.DataFrame(rows, schema=_COLUMNS)


# A short readable name for a kernel: at most 40 characters, the same for the same kernel.


LONGEST_SHORT_NAME = 40
NAMELESS = "(unnamed)"

# head pattern -> word in front of the operation that the template arguments name
_WRAPPERS = (
    (re.compile(r"multi_tensor_apply"), "foreach"),
    (re.compile(r"reduce_kernel$"), "reduce"),
    (re.compile(r"distribution_elementwise"), "random"),
    (re.compile(r"elementwise_kernel|elementwise_grid"), "elementwise"),
)
_COPY = re.compile(r"([HDP])to([HDP])|Memset|memset")
_TRITON = re.compile(r"^triton_(poi|red|per|tem|mm|bmm)_(?:fused_)?(\w+?)(?:_\d+)?$")
_FILLERS = {
    "split_embedding": "embedding", "_codegen": "", "_cuda_kernel": "", "_kernel": "",
    "backward": "bwd", "forward": "fwd", "channels_last": "nhwc", "_and_per_": "_",
    "_with_": "_", "_per_row_1": "", "native_": "",
}  # fmt: skip
_TRITON_WORDS = {"poi": "pointwise", "red": "reduction", "per": "reduction", "tem": "template"}
_ENDING = re.compile(r"(?:_cuda)?_?[Kk]ernel(?:_impl|_val)?$|_cuda$|_impl$")
_CUTE_OBJECT = re.compile(r"^kernel_cutlass_kernel_")
_COUNTERS = re.compile(r"(?:\.\d+|_\d+)$")


def short_name(parts: Anatomy, facts: NameFacts) -> str:
    """The short name; a name of brackets only is its own."""
    return cut(_readable(parts, facts)) or cut(parts.text) or NAMELESS


def _readable(parts: Anatomy, facts: NameFacts) -> str:
    """A readable name of any length, by what kind of kernel it is."""
    if facts.algorithm in CONTRACTIONS:
        return _contraction(parts, facts)
    if facts.algorithm in COLLECTIVES:
        return _collective(parts, facts)
    if parts.text.startswith(("Mem", "[", "__amd_rocclr")):
        return _transfer(parts.text)
    triton = _TRITON.match(parts.head)
    if triton:
        words = "" if triton[2].isdecimal() else triton[2].strip("_").replace("__", "_")
        return f"triton {_TRITON_WORDS.get(triton[1], triton[1])} {words}"
    return _wrapper(parts) or _plain(parts)


def cut(text: str) -> str:
    """At most 40 characters: first without filler words, then with an ellipsis.

    >>> cut("split_embedding_codegen_forward_unweighted<float>")
    'embedding_forward_unweighted<float>'
    """
    text = " ".join(text.split())
    for filler, shorter in _FILLERS.items():
        if len(text) <= LONGEST_SHORT_NAME:
            return text
        text = text.replace(filler, shorter)
    if len(text) <= LONGEST_SHORT_NAME:
        return text
    ending = text[text.rfind("<") :] if text.endswith(">") and "<" in text[-9:] else ""
    return text[: LONGEST_SHORT_NAME - 1 - len(ending)] + "…" + ending


def _contraction(parts: Anatomy, facts: NameFacts) -> str:
    """`cudnn conv dgrad fp16 tensor 128x128`."""
    what = facts.algorithm or ""
    if what in CONVOLUTIONS:
        what = "conv" if what == "implicit-gemm" else f"{what} conv"
    what = "" if what == facts.library else what.replace("flash-attention", "attention")
    way = facts.pass_name if facts.pass_name in ("dgrad", "wgrad", "backward") else ""
    unit = (facts.precision or "").replace("-", " ")
    if facts.precision == "fp32" and facts.storage in ("fp16", "bf16"):
        unit = f"fp32 ({facts.storage} data)"
    if facts.library is None and facts.precision is None:
        return _plain(parts)
    known = " ".join(w for w in (facts.library, what, way, unit) if w)
    fits = facts.tile and len(known) + 1 + len(facts.tile) <= LONGEST_SHORT_NAME
    return f"{known} {facts.tile}" if fits else known


def _collective(parts: Anatomy, facts: NameFacts) -> str:
    """`nccl all-reduce fp32 ring`."""
    kind = re.search(r"_(float|half|double|u?int\d+_t|bf16|f\d+|bfloat16)\b", parts.head)
    ring = re.search(r"_(RING|TREE|NVLS|COLLNET)", parts.head)
    words = (facts.library, facts.algorithm, kind and kind[1], ring and ring[1].lower())
    if facts.library in ("nccl", "rccl"):
        return " ".join(w for w in words if w)
    return f"{facts.library or ''} {_plain(parts)}".strip()


def _transfer(text: str) -> str:
    """`memcpy DtoH`, `memset`, `page faults CPU`."""
    found = _COPY.search(text)
    if found and found[1]:
        return f"memcpy {found[1]}to{found[2]}"
    if found:
        return "memset"
    text = text.strip("[]").removeprefix("__amd_rocclr_").removesuffix("Aligned")
    return {"fillBuffer": "memset fillBuffer", "copyBuffer": "memcpy copyBuffer"}.get(text, text)


def _wrapper(parts: Anatomy) -> str | None:
    """`elementwise Fill<float>` for kernels that wrap a functor."""
    if parts.function == "EigenMetaKernel":
        return "eigen " + _typed(
            anatomy.eigen_operation(parts.arguments), main_type(parts.arguments)
        )
    for pattern, word in _WRAPPERS:
        if pattern.search(parts.head):
            operation = operation_in(parts.arguments)
            of = main_type if word == "reduce" else element_type
            kind = None if operation and " " in operation else of(parts.arguments)
            return f"{word} {_typed(operation, kind)}" if operation else None
    return None


def _plain(parts: Anatomy) -> str:
    """The function's own name with its data type."""
    function = parts.function or parts.text
    # A function called just "kernel" is named by its first argument or its namespace.
    if function.lower() in ("kernel", "kernel2", "device_kernel", "kentry"):
        function = operation_in(parts.arguments) or parts.head
    function = _ENDING.sub("", function) or function
    if not parts.arguments and not parts.parameters:
        function = _COUNTERS.sub("", function) or function
    function = _CUTE_OBJECT.sub("cute ", function).split("_object_at", 1)[0].rstrip("_")
    return _typed(function, main_type(parts.arguments) or main_type(parts.parameters))


def _typed(word: str, kind: tuple[str, str] | None) -> str:
    """`Fill<float>`."""
    return f"{word}<{kind[1]}>" if kind else word
