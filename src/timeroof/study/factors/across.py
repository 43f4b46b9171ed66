"""The five factors across frameworks: the same work on one machine in several frameworks.

Within a framework its rows go through the factors' own engine; between frameworks, and between the
ways in which one runs the same layer, times are compared as there: by their samples, and beside
other programs only where they were taken in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from timeroof.core.machine import Machine
from timeroof.core.report import Finding
from timeroof.core.units import format_seconds
from timeroof.study.factors import intensity, locality, precision
from timeroof.study.factors.conclusion import NAMES, Conclusion, Effect, compared, settle, times
from timeroof.study.grid import FRAMEWORKS, MAIN_VARIANT, OWN_LAYOUT
from timeroof.study.judged_cases import Row, ops

FRAMEWORK_NAMES = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}
# What a way of running is called beside its framework.
WAYS = {
    ("torch", "eager"): "fused layer", ("torch", "cell-loop"): "loop of cells",
    ("torch", "compile"): "torch.compile", ("jax", "compiled"): "jit",
    ("tensorflow", "xla"): "XLA", ("tensorflow", "session"): "session (TF 1)",
}  # fmt: skip
# Work that differs by less is the same.
SAME = 1e-6
UNSURE = "too close to tell on this run"
# Frameworks run in processes of their own, so that they cannot take turns.
BESIDE = "which is an indication only, because other programs used the processor"


class Way(NamedTuple):
    """The base case of a kernel in one framework and variant."""

    framework: str
    variant: str
    row: Row

    @property
    def name(self) -> str:
        """The way of running in a few words."""
        plain = "eager" if (self.row.op, self.variant) == ("conv2d", "eager") else self.variant
        key = (self.framework, self.variant)
        return plain if self.row.op == "conv2d" and plain == "eager" else WAYS.get(key, plain)

    @property
    def full_name(self) -> str:
        """The same with its framework."""
        return f"{FRAMEWORK_NAMES.get(self.framework, self.framework)} {self.name}"

    @property
    def launches_per_step(self) -> float | None:
        """Launches for each time step of a recurrent layer."""
        steps = self.row.params.get("time_steps")
        if self.row.launches is None or not isinstance(steps, int):
            return None
        return self.row.launches / steps


def executed_per_needed(row: Row) -> float | None:
    """Products that ran over those of the definition; None where either is not known.

    >>> executed_per_needed(Row(contraction_flops=17.0, formula_flops=16.0))
    1.0625
    """
    if row.contraction_flops is None:
        return None
    return row.contraction_flops / row.formula_flops if row.formula_flops else 1.0


@dataclass(frozen=True)
class Across:
    """One factor across frameworks: a sentence, a line per framework, what was compared."""

    factor: str
    sentence: str
    lines: Sequence[tuple[str, str]]
    effects: Sequence[Effect] = ()
    kernels: Sequence[int] = ()
    facts: dict[str, object] = field(default_factory=dict)

    def finding(self) -> Finding:
        """The same as a finding of a report."""
        return Finding(
            code=f"study/{self.factor}/frameworks",
            title=f"{NAMES[self.factor]} across frameworks: {self.sentence}",
            why=" ".join(f"{name}: {text}" for name, text in self.lines),
            kernels=sorted({*self.kernels, *(i for e in self.effects for i in e.kernels)}),
            evidence={
                "across": self.sentence,
                "lines": [list(line) for line in self.lines],
                "comparisons": [effect.evidence() for effect in self.effects],
                **self.facts,
            },
        )


def frameworks_of(rows: Sequence[Row]) -> list[str]:
    """The frameworks that ran, in their usual order."""
    return [name for name in FRAMEWORKS if any(row.framework == name for row in rows)]


def main_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first framework: what a study says where it says nothing of others."""
    first = frameworks_of(rows)[:1]
    return [row for row in rows if not first or row.framework in first]


def forward_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of forward passes before the others: what they show is what a sentence is about."""
    return sorted(rows, key=lambda row: row.pass_name != "forward")


def ways(rows: Sequence[Row], op: str, pass_name: str = "forward") -> list[Way]:
    """The case of a kernel that ran in most ways, in every one of them, slowest first."""
    held: dict[tuple[object, ...], dict[tuple[str, str], Row]] = {}
    for row in rows:
        plain = (row.op, row.pass_name, row.precision, row.cache) == (op, pass_name, "fp32", "warm")
        own = OWN_LAYOUT.get(row.framework, "contiguous")
        if plain and row.time_s > 0 and row.params.get("layout", own) == own:
            case = tuple(sorted((n, v) for n, v in row.params.items() if n != "layout"))
            held.setdefault(case, {}).setdefault((row.framework, row.variant), row)
    most = max(held.values(), key=len, default={})
    found = [Way(framework, variant, row) for (framework, variant), row in most.items()]
    return sorted(found, key=lambda way: -way.row.time_s)


def across(rows: Sequence[Row], machine: Machine | None) -> list[Across]:
    """What each factor comes to across frameworks; nothing where one alone ran."""
    if len(frameworks_of(rows)) < 2:
        return []
    found = [_intensity(rows, machine), _locality(rows, machine), _autotune(rows),
             _launch(rows), _precision(rows, machine)]  # fmt: skip
    return [one for one in found if one is not None]


Engine = Callable[[Sequence[Row], Machine | None], Conclusion | None]


def _by_engine(
    rows: Sequence[Row], machine: Machine | None, engine: Engine
) -> dict[str, Conclusion]:
    """What a factor's engine says of each framework's main variant and what it is compared with."""
    found = {}
    for name in frameworks_of(rows):
        own = forward_first([row for row in rows if row.framework == name])
        conclusion = engine(own, machine)
        if conclusion is not None:
            found[name] = conclusion
    return found


def _lines(found: dict[str, Conclusion]) -> list[tuple[str, str]]:
    return [(FRAMEWORK_NAMES[name], one.sentence) for name, one in found.items()]


def _intensity(rows: Sequence[Row], machine: Machine | None) -> Across:
    """Work executed against work needed, and what larger filters do in each framework."""
    main = [row for row in rows if row.variant == MAIN_VARIANT.get(row.framework)]
    found = _by_engine(main, machine, intensity.conclude)
    more = more_than_needed(rows)
    known = [row for row in rows if executed_per_needed(row) is not None]
    if more:
        row = more[0]
        sentence = (
            f"{way_of(row)} executes {more_words(row)} the products that"
            f" {row.op} {row.pass_name} needs: {row.executed_because or 'no cause is known'}."
        )
    else:
        sentence = f"All {len(known)} counted cases execute exactly the products that they need."
    facts: dict[str, object] = {"executed_per_needed": [
        {"kernel": r.id, "ratio": executed_per_needed(r), "because": r.executed_because}
        for r in known if abs((executed_per_needed(r) or 1.0) - 1) > SAME
    ]}  # fmt: skip
    kernels = [r.id for r in known if abs((executed_per_needed(r) or 1.0) - 1) > SAME]
    return Across("intensity", sentence, _lines(found), (), kernels, facts)


def more_than_needed(rows: Sequence[Row]) -> list[Row]:
    """Rows that execute more products than their definition needs, the worst first."""
    more = [row for row in rows if (executed_per_needed(row) or 1.0) > 1 + SAME]
    return sorted(more, key=lambda row: -(executed_per_needed(row) or 1.0))


def more_words(row: Row) -> str:
    """How many times the work needed a row executes: a count, so that all digits hold."""
    return f"{executed_per_needed(row) or 1.0:.3g}×"


def way_of(row: Row) -> str:
    """Framework and variant of a row in words."""
    return Way(row.framework, row.variant, row).full_name


def _locality(rows: Sequence[Row], machine: Machine | None) -> Across | None:
    """Layouts of images in each framework."""
    main = [row for row in rows if row.variant == MAIN_VARIANT.get(row.framework)]
    found = _by_engine(main, machine, locality.conclude)
    leads = {n: c.lead for n, c in found.items() if c.lead is not None and c.lead.kind == "layout"}
    if not leads:
        return None
    if all(lead.verdict == "unclear" for lead in leads.values()):
        sentence = f"The layouts of images are {UNSURE}."
    else:
        what = "Against contiguous images the time of channels_last"
        sentence = f"{what} is {_in_each(leads)}."
    effects = list(leads.values())
    return Across("locality", sentence, _lines(found), effects)


def _in_each(leads: dict[str, Effect]) -> str:
    """The ratio in each framework; one that cannot be told is named, too."""
    sure = [n for n, lead in leads.items() if lead.verdict != "unclear"]
    texts = [f"{times(leads[n].ratio.value)} in {FRAMEWORK_NAMES[n]}" for n in sure]
    open_ones = [FRAMEWORK_NAMES[n] for n in leads if n not in sure]
    return listed(texts) + (f"; {UNSURE} in {listed(open_ones)}" if open_ones else "")


def _autotune(rows: Sequence[Row]) -> Across | None:
    """The same convolution in each framework's main variant and own layout: other algorithms."""
    every = [w for w in ways(rows, "conv2d") if w.variant == MAIN_VARIANT.get(w.framework)]
    if len(every) < 2:
        return None
    slow, fast = every[0], every[-1]
    (effect,) = settle([_compared("conv2d", fast, slow)]) or (None,)
    words = f"{format_seconds(slow.row.time_s)} against {format_seconds(fast.row.time_s)}"
    why = BESIDE if effect is not None and effect.disturbed else UNSURE
    sentence = f"conv2d in {slow.full_name} and in {fast.full_name}: {words}, {why}."
    if effect is not None and effect.verdict == "slower":
        sentence = (
            f"The same convolution takes {times(effect.ratio.value)} as long in {slow.full_name} as"
            f" in {fast.full_name}, {words}."
        )
    lines = [
        (FRAMEWORK_NAMES[w.framework], f"{format_seconds(w.row.time_s)} ({w.name},"
         f" {w.row.params.get('layout', 'contiguous')}{_implementation(w.row)}).")
        for w in every
    ]  # fmt: skip
    return Across("autotune", sentence, lines, [e for e in (effect,) if e is not None])


def _implementation(row: Row) -> str:
    return f", {row.implementation}" if row.implementation else ""


def _compared(title: str, base: Way, other: Way) -> Effect | None:
    facts = {
        "launches": [base.row.launches, other.row.launches],
        "time_s": [base.row.time_s, other.row.time_s],
    }
    return compared(title, (base.full_name, base.row), (other.full_name, other.row), facts)


def recurrent_ops(rows: Sequence[Row]) -> list[str]:
    """Kernels with time steps, LSTM first: launching is their story."""
    found = [op for op in ops(rows) if any("time_steps" in r.params for r in rows if r.op == op)]
    return sorted(found, key=lambda op: op != "lstm")


def _launch(rows: Sequence[Row]) -> Across | None:
    """Every way of running the same recurrent layer, each framework's in the measured order."""
    for op in recurrent_ops(rows):
        every = ways(rows, op)
        if len(every) > 1:
            return _launch_of(op, every)
    return None


def _launch_of(op: str, every: Sequence[Way]) -> Across:
    own = {
        n: [w for w in every if w.framework == n] for n in dict.fromkeys(w.framework for w in every)
    }
    pairs = {
        name: _compared(f"{op} in {FRAMEWORK_NAMES[name]}", some[-1], some[0])
        for name, some in own.items()
        if len(some) > 1
    }
    settled = settle([effect for effect in pairs.values() if effect is not None])
    by_name = dict(zip((n for n, e in pairs.items() if e is not None), settled, strict=True))
    real = {n: e for n, e in by_name.items() if e.verdict == "slower"}
    sentence = f"{op.upper()}: the ways of running it are {UNSURE}."
    if real:
        order = sorted(real, key=lambda n: -real[n].ratio.value)
        sentence = _launch_sentence(op, [(own[n], real[n].ratio.value) for n in order])
    lines = [
        (FRAMEWORK_NAMES[name], ", ".join(_way_text(way) for way in some) + ".")
        for name, some in own.items()
    ]
    facts: dict[str, object] = {
        "ways": [
            {"framework": w.framework, "variant": w.variant, "time_s": w.row.time_s,
             "launches": w.row.launches, "launches_per_step": w.launches_per_step}
            for w in every
        ]
    }  # fmt: skip
    return Across("launch", sentence, lines, settled, [w.row.id for w in every], facts)


def _launch_sentence(op: str, found: Sequence[tuple[Sequence[Way], float]]) -> str:
    """How much longer the slowest way takes than the fastest, framework by framework."""
    texts = [
        f"{some[0].full_name} takes {times(ratio)} as long as {some[-1].name}"
        for some, ratio in found
    ]
    return f"{op.upper()}: {listed(texts)}."


def listed(texts: Sequence[str]) -> str:
    """Texts in a row.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _way_text(way: Way) -> str:
    each = way.launches_per_step
    per = "" if each is None else f" ({each:.3g} launches per time step)"
    return f"{way.name} {format_seconds(way.row.time_s)}{per}"


def _precision(rows: Sequence[Row], machine: Machine | None) -> Across | None:
    """One narrow format in each framework, in the same case."""
    main = [row for row in rows if row.variant == MAIN_VARIANT.get(row.framework)]
    found = _by_engine(main, machine, precision.conclude)
    by_id = {row.id: row for row in main}
    held: dict[tuple[object, ...], dict[str, Effect]] = {}
    for name, one in found.items():
        for effect in (e for e in one.effects if e.kind == "type"):
            row = by_id[effect.kernels[-1]]
            case = (row.op, effect.other, row.pass_name, row.cache, *sorted(row.params.items()))
            held.setdefault(case, {})[name] = effect
    if not held:
        return None
    # What most frameworks ran, a product in bf16 first.
    (op, other, *_), leads = max(
        held.items(), key=lambda item: (len(item[1]), item[0][0] == "gemm", item[0][1] == "bf16")
    )
    sentence = f"{other} against FP32 is {UNSURE}."
    if any(lead.verdict != "unclear" for lead in leads.values()):
        what = _PRODUCTS.get(str(op), str(op))
        sentence = f"Against FP32 the time of {what} in {other} is {_in_each(leads)}."
    return Across("precision", sentence, _lines(found), list(leads.values()))


_PRODUCTS = {"gemm": "a matrix product", "conv2d": "a convolution"}


def across_findings(rows: Sequence[Row], machine: Machine | None) -> list[Finding]:
    """The factors across frameworks, and every way that does more work than is needed."""
    found = [one.finding() for one in across(rows, machine)]
    for row in more_than_needed(rows)[:MOST_WORK]:
        ratio, why = executed_per_needed(row) or 1.0, row.executed_because
        found.append(
            Finding(
                code="study/work",
                title=f"{way_of(row)} executes {more_words(row)} the products that"
                f" {row.op} {row.pass_name} needs",
                why=f"{why[:1].upper()}{why[1:]}." if why else "No cause is known.",
                kernels=[row.id],
                evidence={"executed_per_needed": ratio, "executed_flops": row.contraction_flops,
                          "needed_flops": row.formula_flops, "because": why},
            )
        )  # fmt: skip
    return found


# More findings of one kind would hide the others.
MOST_WORK = 6
