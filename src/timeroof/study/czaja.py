"""The kernels of a second method paper, and how much of the compute roof each reaches.

Czaja et al., "Applying the Roofline model for Deep Learning performance optimizations", 2020, ask
of oneDNN's kernels which share of the compute roof they use, and which share they could use at
their intensity: cold and warm, on one core, one socket and two. Sizes are those of the authors'
tool (github.com/jczaja/test-openmp).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from timeroof.core.report import Finding
from timeroof.core.units import format_percent
from timeroof.study.case import Case, Value
from timeroof.study.judged_cases import Row, limiter_words
from timeroof.study.kernels import kernel as find_kernel

# Overwritten before every cold execution; quick studies overwrite less, but more than all caches.
OVERWRITTEN_BYTES, QUICK_OVERWRITTEN_BYTES = 512 << 20, 64 << 20
_TIMES_THE_CACHE = 2
CODE = "study/utilisation"
# How a blocked layout looks in oneDNN's lines: a dimension is split into pieces of 4, 8 or 16.
_BLOCK = re.compile(r"\bsrc \w*\d")


class Studied(NamedTuple):
    """A kernel of the preset: what it is called there, here, and its sizes."""

    name: str
    theirs: str
    op: str
    sizes: str
    params: dict[str, Value]
    # What a quick study changes of them.
    quick: dict[str, Value] = {}
    variant: str = "eager"
    # The other paper's kernels stand beside for comparison.
    reference: bool = False

    def case_params(self, *, quick: bool) -> dict[str, Value]:
        """All parameters of the case."""
        return find_kernel(self.op).base | self.params | (self.quick if quick else {})

    def is_of(self, row: Row) -> bool:
        """Whether a row is this kernel, at one of its two sizes."""
        if (row.op, row.variant, row.pass_name) != (self.op, self.variant, "forward"):
            return False
        return any(dict(row.params) == self.case_params(quick=quick) for quick in (False, True))


_CONVOLUTION: dict[str, Value] = {
    "batch": 256, "channels": 16, "size": 227, "filters": 96, "kernel": 3, "stride": 1,
}  # fmt: skip
_IMAGES = "256×96×55×55"
_ELEMENTS, _QUICK_ELEMENTS = 256 * 96 * 55 * 55, 32 * 96 * 55 * 55


def _convolution(name: str, theirs: str, variant: str) -> Studied:
    # oneDNN 3 has no Winograd convolution for x86: that of the study is not the library's.
    own = ", written in PyTorch ops" if variant == "winograd" else ""
    sizes = f"256×16×227×227, 96 filters 3×3{own}"
    return Studied(name, theirs, "conv2d", sizes, _CONVOLUTION, {"batch": 4}, variant)


def _elementwise(name: str, theirs: str, op: str) -> Studied:
    params: dict[str, Value] = {"op": op, "elements": _ELEMENTS}
    return Studied(name, theirs, "elementwise", _IMAGES, params, {"elements": _QUICK_ELEMENTS})


KERNELS = (
    _convolution("Convolution, plain layout", "dnnl_nchw_conv", "eager"),
    _convolution("Convolution, blocked layout", "dnnl_blocked_conv", "blocked"),
    _convolution("Convolution, Winograd", "dnnl_winograd_conv", "winograd"),
    Studied(
        "Inner product", "dnnl_fc", "linear", "256×4096 → 1000",
        {"batch": 256, "inputs": 4096, "outputs": 1000},
    ),
    _elementwise("GELU", "dnnl_nchw_gelu", "gelu"),
    _elementwise("Addition", "dnnl_nchw_binary_add", "add"),
    _elementwise("Multiplication", "dnnl_nchw_binary_mul", "mul"),
    Studied(
        "Average pooling", "dnnl_nchw_pool_avg", "pool", f"{_IMAGES}, window 5×5",
        {"batch": 256, "channels": 96, "size": 55, "kernel": 5, "stride": 1, "mode": "mean"},
        {"batch": 32},
    ),
    Studied(
        "Layer norm", "dnnl_tnc_layer_norm", "layernorm", "256×768×32×4",
        {"rows": 256 * 32 * 4, "columns": 768}, {"rows": 32 * 32 * 4},
    ),
    # The paper's own, in their base cases.
    Studied(
        "conv2d of the time-based paper", "", "conv2d", "16×64×112×112, 64 filters 3×3, stride 2",
        {}, reference=True,
    ),
    Studied(
        "LSTM of the time-based paper", "", "lstm", "16 steps, 32 → 16, batch 16", {},
        reference=True,
    ),
)  # fmt: skip


def preset_cases(threads: Sequence[int], *, quick: bool) -> list[Case]:
    """Every kernel warm and cold, on each number of threads."""
    return [
        Case(
            kernel=one.op, params=one.case_params(quick=quick), pass_name="forward",
            threads=count, cache=cache, variant=one.variant,
        )
        for count in threads
        for one in KERNELS
        for cache in ("warm", "cold")
    ]  # fmt: skip


def overwritten_bytes(largest_cache_bytes: int | None, *, quick: bool) -> int:
    """Memory that is overwritten before a cold execution: more than any cache holds.

    >>> [overwritten_bytes(cache, quick=True) >> 20 for cache in (None, 32 << 20, 384 << 20)]
    [64, 64, 768]
    """
    least = QUICK_OVERWRITTEN_BYTES if quick else OVERWRITTEN_BYTES
    return max(least, _TIMES_THE_CACHE * (largest_cache_bytes or 0))


class Place(NamedTuple):
    """A column of the table: where cases ran, with which caches."""

    scope: str
    threads: int
    cache: str

    @property
    def words(self) -> str:
        """In words.

        >>> Place("core", 1, "warm").words, Place("all", 2, "cold").words
        ('1 core, warm', '2 cores, cold')
        """
        cores = f"{self.threads} core{'s' * (self.threads != 1)}"
        return f"{cores}{' (1 socket)' * (self.scope == 'socket')}, {self.cache}"


class Utilised(NamedTuple):
    """A kernel of the preset with its rows by place."""

    kernel: Studied
    by_place: dict[Place, Row]

    @property
    def scaled(self) -> bool:
        """Whether it ran at the sizes of a quick study."""
        return any(
            dict(row.params) != self.kernel.case_params(quick=False)
            for row in self.by_place.values()
        )

    @property
    def layout(self) -> str | None:
        """Of the blocked convolution: whether oneDNN's own line confirms its layout."""
        if self.kernel.variant != "blocked":
            return None
        told = {row.formats for row in self.by_place.values()}
        names = ", ".join(sorted(text for text in told if text)) or "nothing"
        if told and all(text and _BLOCK.search(text) for text in told):
            return f"confirmed by oneDNN's line: {names}"
        return f"not confirmed: oneDNN's line says {names}"


def places_of(rows: Sequence[Row]) -> list[Place]:
    """Where the preset's cases ran, fewest cores first, warm before cold."""
    found = {Place(row.scope, row.threads or 0, row.cache) for row in rows if row.placed}
    return sorted(found, key=lambda p: (p.threads, p.cache != "warm"))


def utilised(rows: Sequence[Row]) -> list[Utilised]:
    """The preset's kernels that ran, in its order; only the preset binds cases to their cores."""
    bound = [row for row in rows if row.placed and row.time_s > 0]
    found = []
    for one in KERNELS:
        held = {Place(r.scope, r.threads or 0, r.cache): r for r in bound if one.is_of(r)}
        if held:
            found.append(Utilised(one, held))
    return found if any(not one.kernel.reference for one in found) else []


def utilisation_findings(rows: Sequence[Row]) -> list[Finding]:
    """What the preset found, as a finding of the report; nothing where it did not run."""
    every, places = utilised(rows), places_of(rows)
    if not every:
        return []
    ran = [row for one in every for row in one.by_place.values()]
    above = [row.name for row in ran if row.above_roof]
    counted = sum(row.measured("flops") for row in ran)
    source = f"counters in {counted} of {len(ran)} cases" if counted else "the model in all cases"
    flagged = f" Above the attainable share, marked ▲: {len(above)} cases." if above else ""
    return [
        Finding(
            code=CODE,
            title=f"Utilisation: {sentence(every, places)}",
            why="Utilisation is the share of the compute roof that a kernel reaches. Attainable is"
            f" what its FLOPs and bytes allow. Both come from {source}.{flagged}",
            kernels=[row.id for row in ran],
            evidence={
                "sentence": sentence(every, places),
                "layout": next((one.layout for one in every if one.layout), None),
                "above_attainable": above,
                "kernels": [
                    {
                        "kernel": one.kernel.name,
                        "place": place.words,
                        "time_s": row.time_s,
                        "utilisation": row.utilisation,
                        "attainable": row.attainable,
                        "limiter": row.limiter,
                        "above_roof": row.above_roof,
                    }
                    for one in every
                    for place, row in sorted(one.by_place.items())
                ],
            },
        )
    ]


def sentence(every: Sequence[Utilised], places: Sequence[Place]) -> str:
    """The convolutions on most cores with warm caches, else the kernel that does best there."""
    place = _telling_place(every, places)
    known = {
        one.kernel.name: row
        for one in every
        if (row := one.by_place.get(place)) is not None and row.utilisation is not None
    }
    where = place.words.replace(",", " with", 1) + " caches"
    forms = [(_FORMS[name], row) for name, row in known.items() if name in _FORMS]
    if len(forms) > 1:
        forms.sort(key=lambda form: -(form[1].utilisation or 0.0))
        (form, best), *rest = forms
        others = [f"{format_percent(row.utilisation)} {words}" for words, row in rest]
        return (
            f"On {where} convolution uses {format_percent(best.utilisation)} of the compute roof"
            f" {form}, {' and '.join(others)}."
        )
    if not known:
        return f"Not known on {where}: FLOPs were not counted, or the machine has no roof."
    name, row = max(known.items(), key=lambda item: item[1].utilisation or 0.0)
    return (
        f"{name} uses {format_percent(row.utilisation)} of the compute roof on {where},"
        f" limited by {limiter_words(row.limiter)}."
    )


_FORMS = {
    "Convolution, plain layout": "in the plain layout",
    "Convolution, blocked layout": "in the blocked layout",
    "Convolution, Winograd": "by Winograd in PyTorch ops",
}


def _telling_place(every: Sequence[Utilised], places: Sequence[Place]) -> Place:
    """Most cores with warm caches, of the places where other programs did not decide the time."""
    warm = [place for place in places if place.cache == "warm"] or list(places)
    quiet = [
        place
        for place in warm
        if not any(p == place and row.disturbed for one in every for p, row in one.by_place.items())
    ]
    return (quiet or warm)[-1]
