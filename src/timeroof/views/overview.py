"""What the first screen of a run says: the same words and numbers in terminal, page and Markdown.

In this order: what ran where, how long it took, where the wall time goes, what to do first, the
largest kernels, and above all of it why the numbers may not be trusted, where that is so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from timeroof.core.columns import Row
from timeroof.core.errors import UNTRUSTED
from timeroof.core.units import format_amount, format_seconds
from timeroof.model.totals import device_count, kernel_groups
from timeroof.views.parts import (
    LONGEST_NAME,
    Doubt,
    Part,
    doubts_of,
    is_empty,
    is_host,
    of_profiled,
    percent,
    ranked,
    time_parts,
)
from timeroof.views.style import LIMITER_WORDS, clip
from timeroof.views.title import account, of_kind, run_subtitle, run_title

if TYPE_CHECKING:
    from timeroof.core.report import Finding, Report, Totals

# How many findings and kernels the first screen has room for.
ACTIONS = 3
KERNELS = 5
# A part below this share of the run is not named in the sentence, and no more parts than this.
LEAST_NAMED = 0.05
# A finding that gains less of the run is not among the first things to do.
LEAST_GAIN = 0.01
LONGEST_REASON = 190
MOST_NAMED = 3
LONGEST_SENTENCE = 25
# So many ops of a kernel are named.
MOST_OPS = 2
# From here on kernels are said to overlap.
OVERLAP = 1.02


class Action(msgspec.Struct, frozen=True):
    """Something to do: a finding with what it gains, why, and how."""

    place: int
    code: str
    title: str
    gain_s: float
    gain: str
    percent: str
    # The reason in a sentence or two, without the places that `why` names.
    why: str
    reason: str
    how: str
    rows: int


class KernelLine(msgspec.Struct, frozen=True):
    """One of the largest kernels; all rows of its name."""

    name: str
    ops: str
    time_s: float
    time: str
    percent: str
    limit: str
    limit_word: str
    of_limit_share: float | None
    of_limit: str
    flop_per_s: float | None
    byte_per_s: float | None
    rows: tuple[int, ...]

    @property
    def title(self) -> str:
        """The kernel, and the ops that launch it where its name does not say them."""
        return f"{self.name} ({self.ops})" if self.ops else self.name


class Overview(msgspec.Struct, frozen=True):
    """The first screen of one run."""

    title: str
    subtitle: str
    is_empty: bool
    time_label: str
    time_s: float | None
    time: str
    # "run" or "step": what shares are shares of.
    noun: str
    # What marks a step, and whose time all of them took; which kind this is of, where several are.
    account: str
    of_kind: str
    sentence: str
    # What the sentence is about; the page sets it in its colour.
    subject: str
    potential: str
    counted: str
    parts: tuple[Part, ...]
    actions: tuple[Action, ...]
    # What stands in their place where there is none.
    nothing: str
    together: str
    # "kernels" of a device or "ops" of a CPU.
    things: str
    kernels: tuple[KernelLine, ...]
    overlap: str
    doubts: tuple[Doubt, ...]

    @property
    def largest(self) -> Part | None:
        """The part that the sentence begins with."""
        return next((part for part in ranked(self.parts)), None)


def overview(report: Report) -> Overview:
    """What the first screen says of a report."""
    totals, parts = report.totals, time_parts(report)
    noun = {"Step time": "step", "Run time": "run"}.get(time_label(totals), "kernel time")
    main, sentence = ranked(parts), sentence_of(report, parts, noun)
    return Overview(
        title=run_title(report),
        subtitle=run_subtitle(report),
        is_empty=is_empty(report),
        time_label=time_label(totals),
        time_s=run_seconds(report),
        time=_seconds(run_seconds(report)),
        noun=noun,
        account=account(report.profile.steps),
        of_kind=of_kind(report.profile.steps),
        sentence=sentence,
        subject=main[0].subject if main and sentence.startswith(main[0].subject) else "",
        potential=_potential(report),
        counted=_counted(totals),
        parts=tuple(parts),
        actions=tuple(actions_of(report)),
        nothing=_nothing(report),
        together=_together(report),
        things="ops" if is_host(report) else "kernels",
        kernels=tuple(_kernel_lines(report)),
        overlap=_overlap(report),
        doubts=tuple(doubts_of(report)),
    )


def time_label(totals: Totals) -> str:
    """What the measured seconds are seconds of."""
    if totals.steps is not None and totals.steps.unprofiled_s is not None:
        return "Step time"
    return "Run time" if totals.wall_s is not None else "Kernel time"


def run_seconds(report: Report) -> float | None:
    """How long the run took; of a run without rows only what was seen of its steps."""
    return report.totals.wall_s if is_empty(report) else report.totals.ladder.measured_s


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else format_seconds(seconds)


def sentence_of(report: Report, parts: Sequence[Part], noun: str) -> str:
    """The largest parts of the wall time in one sentence."""
    if is_empty(report):
        return "Nothing was measured."
    if report.totals.ladder.measured_s is None:
        return "No kernel was timed."
    if is_untrusted(report):
        return _work_sentence(report, noun)
    main = ranked(parts)
    if not main:
        return "No kernel took any time."
    if report.machine is None and main[0].key == "unknown":
        return _kernels_sentence(report, noun)
    first, *others = main
    noun = f"profiled {noun}" if of_profiled(parts) else noun
    words = f"{first.subject} {first.verb} {first.percent} of the {noun}"
    if first.main:
        words += f", mostly {first.main}"
    named = [part for part in others if part.share >= LEAST_NAMED][: MOST_NAMED - 1]
    return _joined(words, [f"{_lower(part.subject)} {part.percent}" for part in named])


def is_untrusted(report: Report) -> bool:
    """Whether the program waited for a CPU so long that its times say nothing."""
    return any(note.code == UNTRUSTED for note in report.notes)


def _work_sentence(report: Report, noun: str) -> str:
    """What holds where times do not: how much there is to do, and what it takes at least."""
    totals = report.totals
    flops = sum(n for n in totals.flops.values() if n is not None)
    known = {level: n for level, n in totals.bytes.items() if n}
    level = next((name for name in ("dram", "l3", "l2", "l1") if name in known), None)
    amounts = [format_amount(flops, "FLOP")] if flops else []
    if level is not None:
        where = "of memory traffic" if level == "dram" else f"of {level.upper()} traffic"
        amounts.append(f"{format_amount(known[level], 'B')} {where}")
    if not amounts:
        return f"FLOPs and bytes of one {noun} are unknown."
    bound_s = totals.ladder.roof_s
    least = "" if bound_s is None else f"; at its bounds that takes {format_seconds(bound_s)}"
    return f"One {noun} needs {' and '.join(amounts)}{least}."


def _joined(words: str, more: Sequence[str]) -> str:
    """A sentence with as many further parts as a reader takes in."""
    whole = f"{words}; {', '.join(more)}." if more else f"{words}."
    return _joined(words, more[:-1]) if more and word_count(whole) > LONGEST_SENTENCE else whole


def word_count(text: str) -> int:
    """Words and numbers of a text.

    >>> word_count("Idle time takes 5.2 % of the run.")
    7
    """
    return len(re.findall(r"[^\W_][^\s]*", text))


def _kernels_sentence(report: Report, noun: str) -> str:
    """The largest kernels, where nothing is known of what limits them."""
    first, *others = _kernel_lines(report)[:MOST_NAMED]
    more = [f"{clip(line.name, LONGEST_NAME)} {line.percent}" for line in others]
    return _joined(f"{clip(first.name, LONGEST_NAME)} takes {first.percent} of the {noun}", more)


def _lower(subject: str) -> str:
    """A subject inside a sentence.

    >>> _lower("Idle time"), _lower("FLOPs")
    ('idle time', 'FLOPs')
    """
    return subject if subject[1:2].isupper() else subject[:1].lower() + subject[1:]


def device_word(report: Report) -> str:
    """What the run is on, in a word."""
    kind = report.machine.kind if report.machine is not None else "gpu"
    return {"cpu": "CPU", "gpu": "GPU"}.get(kind, "device")


def _potential(report: Report) -> str:
    """How much faster the same work could be."""
    totals = report.totals
    if totals.efficiency is None or totals.ladder.roof_s is None:
        return ""
    if is_untrusted(report):
        return "includes waiting for a CPU"
    device = device_word(report)
    return (
        f"{percent(totals.efficiency)} of what this {device} can do;"
        f" could be {format_seconds(totals.ladder.roof_s)}"
    )


def _counted(totals: Totals) -> str:
    """How much of the time has counts."""
    known = totals.known_time_share
    if known is None:
        return ""
    share = "all" if known > 0.995 else percent(known)
    return f"FLOPs and bytes are counted for {share} of the kernel time"


# What to do first.


def actions_of(report: Report) -> list[Action]:
    """The findings that gain something, the largest first: as many as fit.

    What gains next to nothing is nothing to do first, unless there is nothing else.
    """
    gains = [finding for finding in report.findings if finding.gain_s]
    gains.sort(key=lambda finding: -(finding.gain_s or 0.0))
    least_s = LEAST_GAIN * (report.totals.ladder.measured_s or 0.0)
    first = [f for place, f in enumerate(gains) if not place or (f.gain_s or 0.0) >= least_s]
    return [_action(place, f, report) for place, f in enumerate(first[:ACTIONS], 1)]


def _action(place: int, finding: Finding, report: Report) -> Action:
    measured, gain_s = report.totals.ladder.measured_s, finding.gain_s or 0.0
    return Action(
        place=place,
        code=finding.code,
        title=finding.title,
        gain_s=gain_s,
        gain=format_seconds(gain_s),
        percent=percent(gain_s / measured) if measured else "?",
        why=finding.why,
        reason=_reason(finding.why),
        how=first_sentence(finding.action or ""),
        rows=len(finding.kernels),
    )


def _reason(why: str) -> str:
    """The sentences of a reason that a first screen has room for: at least the first.

    >>> _reason("9 copies move 2 GB. Largest: a; b. They feed others.")
    '9 copies move 2 GB.'
    """
    kept = ""
    for sentence in _SENTENCES.split(why):
        if kept and (sentence.startswith("Largest:") or len(kept) + len(sentence) > LONGEST_REASON):
            break
        kept = f"{kept} {sentence}".lstrip()
    return kept


def _nothing(report: Report) -> str:
    """Why there is nothing to do first."""
    if is_untrusted(report):
        return "Measure again while nothing else runs: gains need times that can be trusted."
    if report.machine is None:
        return "Name the machine: --machine NAME. Without it no gain is known."
    return "Nothing: no rule found 1 % of the run to gain."


_SENTENCES = re.compile(r"(?<=[a-zA-Z)`'0-9%]\.)\s+(?=[A-Z0-9])")
_SENTENCE_END = re.compile(r"(?<=[a-z)`'0-9])(?:\.|;)\s+(?=\S)")


def first_sentence(text: str) -> str:
    """The first sentence of an advice, or its first part before a semicolon.

    >>> first_sentence("Call model.eval() once. Then run."), first_sentence("Do it; or not.")
    ('Call model.eval() once.', 'Do it.')
    """
    head = _SENTENCE_END.split(text, maxsplit=1)[0]
    return head if head.endswith(".") or not head else f"{head}."


# Bounded, and only from the start of a word: texts of files are searched, too.
_NAME = r"[A-Za-z_]\w{0,60}"
_CALL = rf"{_NAME}\([^()]{{0,120}}\)"
_CODE = re.compile(
    r"`(?P<quoted>[^`]{1,300})`"
    # A call with what stands before and after it, a method, a name with dots, an option of a
    # command, a snake_case, a setting.
    rf"|(?<![\w.])(?P<bare>(?:{_NAME}\.){{0,6}}{_CALL}(?:\.{_CALL}){{0,4}}|\.{_CALL}"
    rf"|(?:{_NAME}\.){{1,6}}{_NAME}(?: = \w{{1,20}})?"
    r"|(?<!-)--[a-z][\w-]{0,40}(?: (?:NAME|FILE|\d+))?"
    r"|mode='[\w-]{1,40}'"
    r"|[A-Z]{2,20}_[A-Z_]{1,40}(?:=[\w-]{1,40})?"
    r"|[a-z]{1,30}(?:_[a-z]{1,30}){1,6}(?:=[\w-]{1,40}(?:\.\w{1,40})*)?)(?!\w)"
)


def code_parts(text: str) -> list[tuple[str, bool]]:
    """A text cut into prose and code: what is quoted, calls, settings and options.

    >>> code_parts("Use model.to(x) or `a b`.")
    [('Use ', False), ('model.to(x)', True), (' or ', False), ('a b', True), ('.', False)]
    >>> [part for part, code in code_parts("No permute().contiguous(), .to(), a_b=True.") if code]
    ['permute().contiguous()', '.to()', 'a_b=True']
    """
    parts, at = [], 0
    for match in _CODE.finditer(text):
        if match.start() > at:
            parts.append((text[at : match.start()], False))
        parts.append((match["quoted"] or match["bare"], True))
        at = match.end()
    return [*parts, (text[at:], False)] if at < len(text) else parts


def _together(report: Report) -> str:
    """What all findings gain at most: seconds that several of them claim count once."""
    claims = [f for f in report.findings if f.gain_s]
    if len(claims) < 2:
        return ""
    together = max(float(f.evidence.get("cumulative_gain_s") or 0.0) for f in claims)
    if not together:
        return ""
    many = f"All {len(claims)} findings" if len(claims) > 2 else "Both findings"
    return f"{many} together gain at most {format_seconds(together)}."


# The largest kernels.


def devices_of(report: Report) -> int:
    """How many devices the rows are summed over."""
    return device_count(report.profile, report.rows)


def _kernel_lines(report: Report) -> list[KernelLine]:
    if is_empty(report):
        return []
    whole = report.totals.ladder.measured_s or 1.0
    groups = kernel_groups(report.rows, devices_of(report)).head(KERNELS)
    return [_kernel_line(row, whole) for row in groups.iter_rows(named=True)]


def _kernel_line(row: Row, whole_s: float) -> KernelLine:
    share = row["of_limit"]
    return KernelLine(
        name=row["short_name"] or "",
        ops=_ops(row),
        time_s=row["time_s"],
        time=format_seconds(row["time_s"]),
        percent=percent(row["time_s"] / whole_s),
        limit=row["limit"],
        limit_word=LIMITER_WORDS[row["limit"]],
        of_limit_share=share,
        of_limit=percent(share),
        flop_per_s=row["achieved_flop_per_s"] or None,
        byte_per_s=row["achieved_byte_per_s"] or None,
        rows=tuple(row["rows"]),
    )


def _ops(row: Row) -> str:
    """The ops that launch a kernel, where its name does not say them."""
    name = row["short_name"] or ""
    ops = dict.fromkeys(op.removeprefix("aten::") for op in row["ops"])
    named = [op for op in ops if op not in name]
    return ", ".join([*named[:MOST_OPS], *(["…"] if len(named) > MOST_OPS else [])])


def _overlap(report: Report) -> str:
    """That kernels run beside one another, where their times sum to more than the wall clock."""
    totals = report.totals
    if is_empty(report) or totals.kernel_s is None or totals.wall_s is None:
        return ""
    together = float(report.rows["time_s"].sum()) / devices_of(report)
    if together <= OVERLAP * totals.kernel_s:
        return ""
    return (
        f"Streams overlap: {format_seconds(together)} of kernels in"
        f" {format_seconds(totals.kernel_s)}."
    )
