"""Words with one meaning everywhere, and the tables of patterns that find them in hostile names.

A table answers with the first pattern that fits, in a time that is bounded. A name has few of the
words that hundreds of patterns need. Those words are looked for first, all of a table at once,
and only the patterns that can fit are searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable


Value = TypeVar("Value")
# Names are untrusted and may be huge: what matters stands in the first few thousand characters.
LONGEST_NAME = 6000
WORD_REACH = 250
TEXT_REACH = 400


class Fit(NamedTuple, Generic[Value]):
    """A pattern that fits, and what its table says then."""

    match: re.Match[str]
    value: Value


class _Asked(NamedTuple):
    """What a table asks of one text: rows by a word that allows them, and rows that need none."""

    place: int
    words: dict[str, list[int]]
    always: list[int]


class FirstFit(Generic[Value]):
    r"""A table of patterns: the value of the first that fits a text.

    Some look at another text than others: `places` says at which, by row. Each pattern is compiled
    when a text first has its words.

    >>> table = FirstFit([(r"flash_\w*fwd", "forward"), (r"flash", "attention")])
    >>> table.first("my_flash_kernel"), table.first("flash_fwd"), table.first("fill")
    ('attention', 'forward', None)
    """

    def __init__(
        self, rows: Iterable[tuple[str, Value]], flags: int = 0, places: Iterable[int] | None = None
    ) -> None:
        self.flags, self._any_case = flags, bool(flags & re.IGNORECASE)
        listed = [(bounded(pattern), value) for pattern, value in rows]
        self.rows: list[tuple[str, Value]] = listed
        self.places = [0] * len(listed) if places is None else list(places)
        self._compiled: dict[int, re.Pattern[str]] = {}

    @cached_property
    def _asked(self) -> list[_Asked]:
        """By text that rows look at: what is asked of it before they are searched."""
        asked: dict[int, _Asked] = {}
        for rank, ((pattern, _), place) in enumerate(zip(self.rows, self.places, strict=True)):
            of_text = asked.setdefault(place, _Asked(place, {}, []))
            needed = needed_words(pattern)
            for word in needed:
                of_text.words.setdefault(self._folded(word), []).append(rank)
            of_text.always.extend([] if needed else [rank])
        return list(asked.values())

    def _folded(self, text: str) -> str:
        return text.lower() if self._any_case else text

    def first(self, *texts: str) -> Value | None:
        """The value of the first row that fits, None where none does."""
        fit = self.fit(*texts)
        return None if fit is None else fit.value

    def fit(self, *texts: str) -> Fit[Value] | None:
        """The first row that fits, and where it does."""
        ranks: set[int] = set()
        for place, words, always in self._asked:
            text = self._folded(texts[place])
            ranks.update(always, *[allowed for word, allowed in words.items() if word in text])
        for rank in sorted(ranks):
            match = self.pattern(rank).search(texts[self.places[rank]])
            if match:
                return Fit(match, self.rows[rank][1])
        return None

    def pattern(self, rank: int) -> re.Pattern[str]:
        """The pattern of a row, compiled when it is first searched."""
        if rank not in self._compiled:
            self._compiled[rank] = re.compile(self.rows[rank][0], self.flags)
        return self._compiled[rank]


def bounded(pattern: str) -> str:
    r"""A pattern in which `\w*` and `.*` reach a fixed number of characters.

    No search may take more than linear time.

    >>> bounded(r"a.*b")
    'a.{0,400}b'
    """
    for endless, least in ((r"\w", WORD_REACH), (".", TEXT_REACH)):
        pattern = pattern.replace(f"{endless}*", f"{endless}{{0,{least}}}")
        pattern = pattern.replace(f"{endless}+", f"{endless}{{1,{least}}}")
    return pattern


# What one part of a pattern stands for; groups are taken out whole before.
_GROUP = re.compile(r"(?<!\\)\((\?[:=!<]{0,2}|)((?:[^()\\]|\\.)*)\)([?*+]|\{[\d,]*\})?\??")
_UNCERTAIN = re.compile(
    r"(?:(?<!\\)(?:[.^$]|\[\^?\]?[^\]]*\])|\\[A-Za-z0-9])(?:[?*+]|\{[\d,]*\})?\??"
    r"|(?:\\[^A-Za-z0-9]|[^\\])(?:[?*]|\{[\d,]*\})\??"
)
_REPEATED, _ESCAPED = re.compile(r"(\\.|[^\\])\+\??"), re.compile(r"\\(.)")
_BREAK = "\0"
# Groups that are taken out leave a letter of this private range, which their words are kept by.
_PRIVATE = 0xE000


def needed_words(pattern: str) -> tuple[str, ...]:
    r"""Words of which a text has at least one if a pattern fits it; none where nothing is certain.

    >>> needed_words(r"_MT(\d+)x(\d+)"), needed_words("flash_fwd|fmha_v2"), needed_words("a|b?")
    (('_MT',), ('flash_fwd', 'fmha_v2'), ())
    >>> needed_words(r"(^|\W)(bmm|addbmm)(\W|$)"), needed_words(r"(?:max|avg)_pool")
    (('bmm', 'addbmm'), ('_pool',))
    """
    groups: dict[str, tuple[str, ...]] = {}

    def taken_out(group: re.Match[str]) -> str:
        kind, inside, times = group.groups()
        if kind not in ("", "?:") or times not in (None, "+"):
            return _BREAK
        letter = chr(_PRIVATE + len(groups))
        groups[letter] = _words_of(inside, groups)
        return letter

    found = 1
    while found:
        pattern, found = _GROUP.subn(taken_out, pattern)
    return _words_of(pattern, groups)


def _words_of(pattern: str, groups: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of a pattern without groups but those taken out: the best words of each alternative."""
    best = [_best(choice, groups) for choice in _certain(pattern).split("|")]
    return tuple(dict.fromkeys(word for words in best for word in words)) if all(best) else ()


def _best(choice: str, groups: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of what must all stand in a text: the words that fewest texts have, the longest ones."""
    parts = re.split(f"([{_BREAK}{chr(_PRIVATE)}-{chr(_PRIVATE + 999)}])", choice)
    wanted = [groups.get(part, (part,)) for part in parts if part not in ("", _BREAK)]
    known = [words for words in wanted if words]
    return max(known, key=lambda words: (min(map(len, words)), -len(words)), default=())


def _certain(pattern: str) -> str:
    r"""The letters that stand in a text for certain, with a break where anything may stand.

    >>> _certain(r"ab?c+d.e\.f\d[gh]").replace(_BREAK, "~")
    'a~c~d~e.f~~'
    """
    certain = _REPEATED.sub(rf"\1{_BREAK}", _UNCERTAIN.sub(_BREAK, pattern))
    return _ESCAPED.sub(r"\1", certain)


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


# The label `mode` of ops that a program runs one by one where its framework compiles functions.
EAGER = "eager"


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
