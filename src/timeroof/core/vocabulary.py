"""Words with one meaning everywhere: what readers write, rules ask for and views show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache, wraps
from typing import TypeVar

import polars as pl

from timeroof.core.patterns import LONGEST_NAME, FirstFit

Asked = TypeVar("Asked", bound="str | tuple[bytes, ...]")
Answer = TypeVar("Answer")
# Names, types and units are shorter. A damaged file's are megabytes.
LONGEST_REMEMBERED = 2000


def remembered(most: int) -> Callable[[Callable[[Asked], Answer]], Callable[[Asked], Answer]]:
    """Keep the answers about so many texts of files, for as long as the process lives.

    Texts of no sensible length are answered anew: kept, they would be as much memory as all such
    files that were ever read.
    """

    def around(answer: Callable[[Asked], Answer]) -> Callable[[Asked], Answer]:
        kept = lru_cache(most)(answer)

        @wraps(answer)
        def asked(text: Asked) -> Answer:
            length = sum(map(len, text)) if isinstance(text, tuple) else len(text)
            return (kept if length <= LONGEST_REMEMBERED else answer)(text)

        return asked

    return around


class IdleCause(StrEnum):
    """Why nothing ran: on a device between two kernels, on a CPU between two ops."""

    # The host issued the work too late.
    LAUNCH_STARVED = "launch-starved"
    # The host waited for the device, and only then issued more.
    HOST_SYNC = "host-sync"
    # Issued in time, after work of another stream.
    OTHER_STREAM = "other-stream"
    # The host was fetching data.
    DATA = "data"
    # Issued in time, same stream: the device's own time between two kernels.
    DEVICE = "device"
    # On a CPU: the program itself, between its ops.
    PYTHON = "python"
    # The autograd engine's own time.
    AUTOGRAD = "autograd"
    # Ops without work of their own: views, allocation, ops that only call others.
    DISPATCH = "dispatch"
    # The framework's runtime: executors, queues, threads that hand work on.
    RUNTIME = "runtime"
    COMPILE = "compile"
    # The stepping thread does not want a CPU: sleep, files, the network, locks.
    ASLEEP = "asleep"
    # The stepping thread wants a CPU and gets none.
    CPU_WAIT = "cpu-wait"
    # It wants one that another thread of the program has: there are more of them than CPUs.
    OWN_THREADS = "own-threads"
    # Nothing runs but a collective in a thread of its library: waiting for other ranks.
    COMMUNICATION = "communication"
    # The measuring itself.
    PROFILER = "profiler"
    # No launch is known.
    UNKNOWN = "unknown"


class FrameworkName(StrEnum):
    """Frameworks whose programs are measured, and whose words advice is written in."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"


class OpFamily(StrEnum):
    """What an op or a kernel does, in one word that names of all frameworks lead to."""

    PRODUCT = "product"
    BATCHED_PRODUCT = "batched product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    # The same elements in another place; in another order or layout. No arithmetic.
    COPY = "copy"
    LAYOUT = "layout"
    BATCH_NORM = "batch norm"
    NORM = "norm"
    SOFTMAX = "softmax"
    MAX_POOL = "max pool"
    POOLING = "pooling"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    INDEXING = "indexing"
    INTERPOLATION = "interpolation"
    REDUCTION = "reduction"
    # One output element per input element.
    ELEMENTWISE = "elementwise"
    COMMUNICATION = "communication"


# What runs that were saved by older versions call them.
_FORMER = {
    "dispatcher": IdleCause.DISPATCH,
    "data loading": IdleCause.DATA,
    "outside ops": IdleCause.UNKNOWN,
}


def idle_cause(word: str) -> IdleCause:
    """The cause that a saved word means; one that nobody knows is unknown.

    >>> idle_cause("host-sync"), idle_cause("dispatcher").value, idle_cause("magic").value
    (<IdleCause.HOST_SYNC: 'host-sync'>, 'dispatch', 'unknown')
    """
    try:
        return IdleCause(word)
    except ValueError:
        return _FORMER.get(word, IdleCause.UNKNOWN)


def known_causes(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds by saved words as seconds by cause.

    >>> known_causes({"dispatcher": 1.0, "magic": 2.0, "unknown": 0.5})
    {'dispatch': 1.0, 'unknown': 2.5}
    """
    found: dict[str, float] = {}
    for word, value in seconds.items():
        cause = idle_cause(word).value
        found[cause] = found.get(cause, 0.0) + value
    return found


# Which family an op or a kernel belongs to, told from its name: the one table of such patterns.

# Work for matrix units.
CONTRACTIONS = (
    OpFamily.PRODUCT, OpFamily.BATCHED_PRODUCT, OpFamily.CONVOLUTION, OpFamily.ATTENTION,
    OpFamily.RECURRENT,
)  # fmt: skip
MOVES = (OpFamily.COPY, OpFamily.LAYOUT)

# The first that fits decides, upper and lower case alike.
_PATTERNS: tuple[tuple[OpFamily, str], ...] = (
    (OpFamily.ATTENTION, r"attention|scaled_dot_product"),
    (OpFamily.RECURRENT, r"lstm|gru|rnn"),
    (
        OpFamily.CONVOLUTION,
        r"convolution|(^|[:_\W])conv([^e\W]\w*)?([:_\W\d]|$)"
        r"|^tf::_?(fused)?(depthwise)?conv\d",
    ),
    (OpFamily.BATCHED_PRODUCT, r"(^|[:_\W])(bmm|addbmm|baddbmm)([:_\W\d]|$)|^tf::batchmatmul"),
    (
        OpFamily.PRODUCT,
        r"gemm|^tf::_fusedmatmul|(^|[:_\W])(mm|addmm|matmul|linear|einsum|dot|dot_general|gemv|mv|addmv|inner_product)"
        r"([:_\W\d]|$)",
    ),
    (OpFamily.COPY, r"::(copy_?|clone|_to_copy|contiguous)$|direct_copy|^memcpy"),
    (
        OpFamily.LAYOUT,
        r"reorder|transpose|permute|nchw.?to.?nhwc|nhwc.?to.?nchw|contiguous|shuffleintensor"
        r"|swapdimension|layout|im2col|col2im|::(cat|stack|reshape_copy)$|catarray",
    ),
    (OpFamily.BATCH_NORM, r"batch_?norm"),
    (OpFamily.NORM, r"norm"),
    (OpFamily.SOFTMAX, r"softmax"),
    (OpFamily.MAX_POOL, r"max_?pool"),
    (OpFamily.POOLING, r"pool"),
    (OpFamily.LOSS, r"loss"),
    (OpFamily.OPTIMIZER, r"foreach|fused_(adamw?|sgd|adagrad)|^tf::(resource)?(sparse)?apply"),
    (OpFamily.INDEXING, r"embedding|index|select|slice"),
    (OpFamily.INTERPOLATION, r"upsample"),
    (OpFamily.REDUCTION, r"^tf::(biasaddgrad|sum|mean|max|min|prod|all|any|argmax|argmin)$"),
    (
        OpFamily.ELEMENTWISE,
        r"^tf::(\w+grad|addv2|realdiv|biasadd|addn|selectv2|squareddifference|divnonan|cast"
        r"|assign(add|sub)variableop)$|::(add|sub|rsub|mul|div|neg|exp|log|sqrt|rsqrt|pow|sin|cos|tanh|sigmoid|relu|gelu|silu"
        r"|hardtanh|leaky_relu|elu|softplus|erf|abs|clamp\w*|where|maximum|minimum|square|reciprocal"
        r"|threshold\w*|dropout|native_dropout|masked_fill|addcmul|addcdiv|lerp|sign|floor|round"
        r"|\w+_backward|logical_\w+|bitwise_\w+|eq|ne|lt|gt|le|ge)_?$|elementwise|pointwise",
    ),
)
FAMILIES = FirstFit([(pattern, family) for family, pattern in _PATTERNS], re.IGNORECASE)

# What the column `algorithm`, read from a kernel's name, says of its family.
_OF_ALGORITHM: dict[str, OpFamily] = {
    **dict.fromkeys(("gemm", "gemv"), OpFamily.PRODUCT),
    **dict.fromkeys(("implicit-gemm", "winograd", "fft", "direct"), OpFamily.CONVOLUTION),
    "flash-attention": OpFamily.ATTENTION,
    "recurrent-cell": OpFamily.RECURRENT,
    "copy": OpFamily.COPY,
    "layout": OpFamily.LAYOUT,
    "norm": OpFamily.NORM,
    "softmax": OpFamily.SOFTMAX,
    "pooling": OpFamily.POOLING,
    "loss": OpFamily.LOSS,
    "optimizer": OpFamily.OPTIMIZER,
    "interpolation": OpFamily.INTERPOLATION,
    **dict.fromkeys(("gather", "embedding"), OpFamily.INDEXING),
    **dict.fromkeys(("reduction", "scan"), OpFamily.REDUCTION),
    **dict.fromkeys(("elementwise", "dropout", "rotary", "cast"), OpFamily.ELEMENTWISE),
    **dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter"), OpFamily.COMMUNICATION),
    **dict.fromkeys(("broadcast", "reduce", "send-recv"), OpFamily.COMMUNICATION),
    **dict.fromkeys(("all-to-all", "collective"), OpFamily.COMMUNICATION),
}


@remembered(16384)
def family_of(name: str) -> OpFamily | None:
    """The family that the name of an op or a kernel tells, None where it tells none.

    >>> family_of("aten::_to_copy"), family_of("aten::cudnn_convolution"), family_of("f")
    (<OpFamily.COPY: 'copy'>, <OpFamily.CONVOLUTION: 'convolution'>, None)
    >>> [family_of(f"tf::{op}").value for op in ("_FusedMatMul", "DepthwiseConv2dNative", "AddV2")]
    ['product', 'convolution', 'elementwise']
    """
    return FAMILIES.first(name[:LONGEST_NAME])


def row_family() -> pl.Expr:
    """The family of a row, each different row looked at once.

    A kernel that moves data does so whatever op launched it. Otherwise the op tells, then what
    is known of the kernel's algorithm, then its name.
    """
    told = pl.struct("name", "op", "algorithm")
    return told.map_batches(_families, return_dtype=pl.String)


def _families(told: pl.Series) -> pl.Series:
    rows = told.struct.unnest()
    distinct = rows.unique(maintain_order=True)
    found = [_family(*row) for row in distinct.iter_rows()]
    distinct = distinct.with_columns(pl.Series("family", found, pl.String))
    return rows.join(
        distinct, on=["name", "op", "algorithm"], how="left", nulls_equal=True,
        maintain_order="left",
    )["family"]  # fmt: skip


def _family(name: str, op: str | None, algorithm: str | None) -> str | None:
    by_name = family_of(name)
    if algorithm == "layout":
        return OpFamily.LAYOUT.value
    if by_name in MOVES:
        return by_name.value
    by_op = None if op is None else family_of(op)
    found = by_op or (_OF_ALGORITHM.get(algorithm) if algorithm else None) or by_name
    return None if found is None else found.value
