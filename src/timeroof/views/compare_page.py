"""A comparison and a what-if as one static page: a picture and tables, no script, nothing fetched.

The page follows the reader's light or dark theme; all texts of files are escaped by the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup

from timeroof.core.columns import Row
from timeroof.core.errors import TimeroofError
from timeroof.core.files import write_atomically
from timeroof.core.units import format_percent, format_seconds, resource_words
from timeroof.model.compare.causes import LEVELS
from timeroof.views import compare
from timeroof.views.page.templates import (
    BarLine,
    ChartCase,
    Charted,
    ChartFrame,
    ChartRoofs,
    Table,
    static_page,
)
from timeroof.views.pictures.frame import save_figure, themed_svg
from timeroof.views.pictures.of_report import bars_figure, chart_roofs
from timeroof.views.pictures.run_chart import groups_of
from timeroof.views.render import PICTURES
from timeroof.views.style import LIMITERS, clip, markdown_text
from timeroof.views.title import run_title, stem
from timeroof.views.whatif import (
    OUTSIDE,
    WITHOUT_IDLE,
    change_words,
    has_idle,
    is_predicted,
    kernels_told,
    machine_cells,
    split_seconds,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison
    from timeroof.model.whatif.project import WhatIf

MOST_ROWS = 40
# Kernels of each run on the chart.
MOST_DRAWN = 12
# A picture as an element of a page, and the line under it.
Captioned = tuple[Markup, str]


def comparison_page(
    document: Row, pictures: Sequence[Captioned], chart: Charted | None = None
) -> str:
    """A `timeroof.compare/1` document as a page; the chart draws itself, a picture stands in."""
    lead, told = compare.told_rows(document)
    others = [row for row in document["rows"] if not row["significant"]]
    return static_page(
        f"{stem(document['a'])} → {stem(document['b'])}",
        compare.headline(document),
        kind="compare",
        bars=_waterfall(document),
        bars_title="Why",
        pictures=() if chart else pictures,
        charts={"kernels": chart} if chart else {},
        tables=[
            _table("Kernels that changed", told, lead),
            _table("All others", others),
        ],
        notes=document["notes"],
    )


def kernels_chart(a: Report, b: Report) -> Charted | None:
    """The longest kernels of both runs on the first one's roofs; None without roofs or counts."""
    roofs = chart_roofs(a) or chart_roofs(b)
    if roofs is None:
        return None
    cases = [
        ChartCase(
            name=f"{clip(group.name, 30)}, {side}",
            value=place,
            time_s=group.time_s,
            limiter=group.limit,
            series=series,
            flops=group.work[1],
            bytes=group.work[0],
            bandwidth_time_s=group.timed[0] / roofs.bytes_per_s,
            compute_time_s=group.timed[1] / roofs.flops_per_s,
            bound_s=group.time_s / group.over if group.over else None,
        )
        for series, (side, report) in enumerate((("before", a), ("after", b)))
        for place, group in enumerate(groups_of(report, roofs)[:MOST_DRAWN])
    ]
    if not cases:
        return None
    frames = [
        ChartFrame(label, "", [], [case for case in cases if case.series in shown])
        for label, shown in (("before and after", (0, 1)), ("before", (0,)), ("after", (1,)))
    ]
    pair = ChartRoofs(
        roofs.flops_per_s, roofs.bytes_per_s, roofs.launch_s, roofs.compute_name.upper(),
        roofs.memory_name,
    )  # fmt: skip
    return Charted("combined", "The longest kernels", frames, pair, ("before", "after"))


def _waterfall(document: Row) -> list[BarLine]:
    """From the first run to the second, cause by cause; each begins where the one before ends."""
    total = document["total"]
    if total["delta_s"] is None:
        return []
    longest = max(total["a_s"], total["b_s"]) or 1.0
    lines = [BarLine("before", [(0.0, total["a_s"] / longest, "bar-run")], _of(total["a_s"]))]
    at = total["a_s"]
    for cause, seconds in compare.main_causes(document).items():
        left, width = min(at, at + seconds) / longest, abs(seconds) / longest
        colour = "bar-slower" if seconds > 0 else "bar-faster"
        text = compare.signed_seconds(seconds)
        lines.append(BarLine(compare.CAUSE_WORDS[cause], [(left, width, colour)], text))
        at += seconds
    lines.append(BarLine("after", [(0.0, total["b_s"] / longest, "bar-run")], _of(total["b_s"])))
    return lines


def _of(seconds: float | None) -> str:
    return format_seconds(seconds)


def _table(title: str, rows: Sequence[Row], note: str = "") -> Table:
    heads, lines = compare.cells(rows[:MOST_ROWS], noise=True)
    matched = [_matched(row["matched_by"]) for row in rows[:MOST_ROWS]]
    rest = len(rows) - MOST_ROWS
    more = f"The {MOST_ROWS} largest differences; {rest} more are in the JSON." if rest > 0 else ""
    words = " ".join(filter(None, [note, more]))
    if not any(matched):
        return Table(title, heads, lines, words)
    told = [[*line, by] for line, by in zip(lines, matched, strict=True)]
    return Table(title, (*heads, "matched only by"), told, words)


# Keys of matching in words; where all of them agree nothing is to be said.
_KEY_WORDS = {"plain_op": "op", "family": "kind of op", "stem": "kernel's family"}


def _matched(by: str) -> str:
    """What two rows have in common, where that is not all.

    >>> _matched("plain_op phase"), _matched(" ".join(LEVELS[0]))
    ('op, phase', '')
    """
    if by == " ".join(LEVELS[0]):
        return ""
    return ", ".join(_KEY_WORDS.get(key, key) for key in by.split())


# A what-if as a page and as Markdown.

MOST_WHATIF_ROWS = 40
WHATIF_NOTE = (
    "Estimate, not a measurement: each kernel keeps today's efficiency. The range shows how far"
    " that may be off."
)
_MACHINES = ("machine", "bound", "predicted", "low", "high", "speed-up")


def whatif_page(document: Row, pictures: Sequence[Captioned], title: str = "") -> str:
    """A `timeroof.whatif/1` document as a page; `title` says what ran where."""
    names = [m["name"] for m in document["machines"]]
    bars = _machine_bars(document)
    return static_page(
        title or f"{document['from']} → {', '.join(names[:4])}{'…' if len(names) > 4 else ''}",
        _whatif_lead(document),
        kind="whatif",
        bars=bars,
        bars_title="The same work on other machines (estimates)",
        bars_key=_key(bars),
        bars_note=WHATIF_NOTE if bars else "",
        pictures=() if bars else pictures,
        tables=_tables(document, names),
        notes=document["notes"],
    )


def _whatif_lead(document: Row) -> str:
    """The fastest machine, and how it compares with this one."""
    predicted = [m for m in document["machines"] if m["predicted_s"]]
    if not predicted or document["measured_s"] is None:
        return "Nothing was timed, so nothing is predicted."
    best = min(predicted, key=lambda m: m["predicted_s"])
    change = compare.speed_words(document["measured_s"], best["predicted_s"])
    return (
        f"{best['name']}: about {format_seconds(best['predicted_s'])},"
        f" {change} than {format_seconds(document['measured_s'])} on {document['from']}."
    )


def _machine_bars(document: Row) -> list[BarLine]:
    """Measured and predicted seconds by limiter, to one scale, with the interval behind."""
    if not is_predicted(document):
        return []
    machines = document["machines"]
    longest = max(document["measured_s"], *(m["high_s"] or 0.0 for m in machines)) or 1.0
    now = split_seconds(document["measured_by_limiter"], document["measured_s"])
    measured = f"{document['from']} (measured)"
    lines = [BarLine(measured, _segments(now, longest), _of(document["measured_s"]))]
    for m in machines:
        split = split_seconds(m["by_limiter"], m["predicted_s"])
        low, high = m["low_s"], m["high_s"]
        lines.append(
            BarLine(
                m["name"],
                _segments(split, longest),
                _of(m["predicted_s"]),
                f"{_of(low)} to {_of(high)}",
                (low / longest, high / longest),
            )
        )
    return lines


def _key(bars: Sequence[BarLine]) -> list[tuple[str, str]]:
    """The colours that bars have, and what they mean: what limits the time."""
    used = {colour for bar in bars for _, _, colour in bar.pieces}
    kinds = [(f"kind-{kind}", look.word) for kind, look in LIMITERS.items()]
    return [(colour, word) for colour, word in [*kinds, ("part-idle", OUTSIDE)] if colour in used]


def _segments(split: Mapping[str, float], longest: float) -> list[tuple[float, float, str]]:
    found, at = [], 0.0
    for kind, seconds in split.items():
        if seconds > 0:
            colour = f"kind-{kind}" if kind in LIMITERS else "part-idle"
            found.append((at / longest, seconds / longest, colour))
            at += seconds
    return found


def _tables(document: Row, names: list[str]) -> list[Table]:
    machines = [machine_cells(document, m) for m in document["machines"]]
    heads = ("kernel", "limiter", "now", *names)
    return [
        Table("Machines", _MACHINES, machines),
        Table("Limiters that change", ("machine", "from → to", "predicted"), _changes(document)),
        Table("Kernels", heads, _kernels(document), _below(document)),
    ]


def _changes(document: Row) -> list[list[str]]:
    return [
        [machine["name"], change_words(change), format_seconds(seconds)]
        for machine in document["machines"]
        for change, seconds in list(machine["limiter_changes_s"].items())[:8]
    ]


def _kernels(document: Row) -> list[list[str]]:
    return [
        [row["name"], resource_words(row["limiter"]), format_seconds(row["time_s"]),
         *(_predicted(m) for m in row["machines"])]
        for row in kernels_told(document["rows"])[:MOST_WHATIF_ROWS]
    ]  # fmt: skip


def _predicted(machine: Row) -> str:
    likely, low, high = (format_seconds(machine[c]) for c in ("predicted_s", "low_s", "high_s"))
    seconds = f"{likely} ({low} to {high})"
    return (
        f"{seconds}, {resource_words(machine['limiter'] or 'unknown')}"
        if machine["limiter_changes"]
        else seconds
    )


def _below(document: Row) -> str:
    """What stands below the kernels: which seconds these are, and how many rows are left out."""
    rest = len(kernels_told(document["rows"])) - MOST_WHATIF_ROWS
    more = f"The {MOST_WHATIF_ROWS} longest; {rest} more are in the JSON." if rest > 0 else ""
    return " ".join(filter(None, [more, WITHOUT_IDLE if has_idle(document) else ""]))


def markdown_whatif(document: Row) -> str:
    """A what-if as Markdown."""
    share = document.get("known_time_share")
    known = "" if share is None else f", {format_percent(share)} of its time with known work"
    lines = [
        f"**Measured on {markdown_text(document['from'])}:"
        f" {format_seconds(document['measured_s'])}{known}**",
        "",
        f"| {' | '.join(_MACHINES)} |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for machine in document["machines"]:
        name, *numbers = machine_cells(document, machine)
        lines.append(f"| {markdown_text(name)} | {' | '.join(numbers)} |")
    for name, change, seconds in _changes(document):
        words = f"{seconds} with another limit, {markdown_text(change)}"
        lines += ["", f"{markdown_text(name)}: {words}"]
    lines += ["", *(f"- {markdown_text(note)}" for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"


# A comparison or a what-if as files: the suffix of a name says which form, a folder gets all.

TEXTS = ("json", "md", "html")
SUFFIXES = ("html", *PICTURES, "md", "json")
ARROWS = (
    "Work and time of matched kernels. Small dots: work; circles: time, open before and filled"
    " after. Along a diagonal the work is the same: down is faster. Seconds on the axes are those"
    " of the first run's machine."
)
BARS = "Seconds by what limits them; whiskers are the interval, dotted ticks the bound."


@dataclass(frozen=True)
class Outputs:
    """What can be written of a result; its picture is made only where asked for."""

    name: str
    document: Row
    to_markdown: Callable[[Row], str]
    to_page: Callable[[Row, Sequence[Captioned]], str]
    figure: Callable[[], Figure]
    picture: str
    caption: str

    def markdown(self) -> str:
        """The result as Markdown."""
        return self.to_markdown(self.document)

    def page(self) -> str:
        """The result as a page; without a picture where a run cannot be drawn."""
        try:
            svg = Markup(themed_svg(self.figure(), self.picture, self.caption))
        except TimeroofError:
            return self.to_page(self.document, [])
        return self.to_page(self.document, [(svg, self.caption)])


def comparison_outputs(result: Comparison, a: Report, b: Report) -> Outputs:
    """The outputs of `compare`."""
    return Outputs(
        "compare", result.document(), compare.markdown_comparison,
        lambda document, pictures: comparison_page(document, pictures, kernels_chart(a, b)),
        lambda: compare.comparison_figure(result, a, b), "compare", ARROWS,
    )  # fmt: skip


def whatif_outputs(result: WhatIf) -> Outputs:
    """The outputs of `whatif`."""
    return Outputs(
        "whatif", result.document(), markdown_whatif,
        lambda document, pictures: whatif_page(document, pictures, run_title(result.report)),
        lambda: bars_figure(result), "machines", BARS,
    )  # fmt: skip


def write_output(outputs: Outputs, path: Path, kind: str | None = None) -> None:
    """Write one file whole or not at all."""
    kind = kind or path.suffix.lstrip(".").lower()
    if kind == "json":
        write_atomically(path, msgspec.json.encode(outputs.document) + b"\n")
    elif kind in TEXTS:
        text = outputs.markdown() if kind == "md" else outputs.page()
        write_atomically(path, text.encode())
    else:
        save_figure(outputs.figure(), path)


def folder_files(name: str) -> list[str]:
    """What a folder gets beside pictures, which no command reads.

    >>> folder_files("compare")
    ['compare.json', 'compare.md', 'compare.html']
    """
    return [f"{name}.{kind}" for kind in TEXTS]


def write_folder(outputs: Outputs, folder: Path) -> None:
    """Write every form into a folder; a picture only where the runs can be drawn."""
    for name in folder_files(outputs.name):
        write_output(outputs, folder / name)
    with suppress(TimeroofError):
        save_figure(outputs.figure(), folder / f"{outputs.picture}.png")
