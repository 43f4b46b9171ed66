"""A page of pictures and findings, as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.units import format_percent, format_seconds
from timeroof.views.page.templates import page_template
from timeroof.views.palette import LIMITER_COLOURS, LIMITER_WORDS

if TYPE_CHECKING:
    from timeroof.core.report import Report


@dataclass(frozen=True)
class Picture:
    """A picture's file beside the page, and what to say under it."""

    file: str
    caption: str


@dataclass(frozen=True)
class _Part:
    share: str
    colour: str
    text: str


def gallery_page(title: str, report: Report, pictures: Sequence[Picture]) -> str:
    """An HTML page that shows findings and pictures; it opens from disk."""
    return page_template("gallery.html.j2").render(
        title=title,
        rows=len(report.profile),
        machine=report.machine.device if report.machine else "no machine",
        version=report.version,
        created=report.created,
        parts=_parts(report),
        findings=report.findings,
        pictures=pictures,
        notes=report.notes,
    )


def markdown_page(title: str, report: Report) -> str:
    """The findings as Markdown."""
    lines = [f"# {markdown_text(title)}", ""]
    lines += [f"- {part.text}" for part in _parts(report)]
    for finding in report.findings:
        lines += ["", f"## {markdown_text(finding.title)}", "", markdown_text(finding.why)]
    lines += ["", "## Notes", "", *(f"- {markdown_text(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"


_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|"} | {"<": "&lt;", "&": "&amp;"})


def markdown_text(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no HTML, no control characters.

    >>> markdown_text("<b> a_b [x](y)")
    '&lt;b> a\\\\_b \\\\[x\\\\](y)'
    """
    return "".join(c if c.isprintable() else " " for c in text).translate(_MARKDOWN)


def _parts(report: Report) -> list[_Part]:
    seconds = report.totals.by_limiter
    whole = sum(seconds.values()) or 1.0
    return [
        _Part(
            share=f"{100 * s / whole:.3f}",
            colour=LIMITER_COLOURS[kind],
            text=f"{LIMITER_WORDS[kind]}: {format_seconds(s)} ({format_percent(s / whole)})",
        )
        for kind, s in seconds.items()
        if s > 0
    ]
