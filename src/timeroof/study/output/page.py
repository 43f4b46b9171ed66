"""The page of a study: conclusions, charts and tables in one file that opens from disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from timeroof.views.page.embed import asset, content_policy
from timeroof.views.page.page import shown
from timeroof.views.page.templates import template

if TYPE_CHECKING:
    from jinja2 import Template

    from timeroof.study.output.tables import Line


@dataclass(frozen=True)
class Image:
    """A picture in the page with its caption."""

    data: str
    caption: str
    width: int
    height: int


@dataclass(frozen=True)
class ConclusionPart:
    """One factor on the page."""

    anchor: str
    title: str
    points: list[str]
    # found, not found or open
    state: str
    action: str | None
    images: list[Image]


@dataclass(frozen=True)
class PanelPart:
    """One sweep on the page: chart and table."""

    title: str
    fixed: str
    image: Image | None
    heads: tuple[str, ...]
    parameter: str
    lines: list[Line]
    note: str

    @property
    def several(self) -> bool:
        """Whether lines differ in their series."""
        return len({line.series for line in self.lines}) > 1


@dataclass(frozen=True)
class KernelPart:
    """One kernel, pass and number of threads."""

    anchor: str
    title: str
    contains: str
    panels: list[PanelPart]
    overview: list[Image]


@dataclass(frozen=True)
class StudyPage:
    """All that the page shows."""

    title: str
    subtitle: str
    conclusions: list[ConclusionPart]
    kernels: list[KernelPart]
    roofs: list[tuple[str, list[str]]]
    roof_heads: list[str]
    failures: list[tuple[str, str, str]]
    notes: list[str]
    links: list[tuple[str, str]] = field(default_factory=list)
    # What a reader must know before any number.
    warning: str = ""


def study_page(page: StudyPage) -> str:
    """The page as HTML: nothing is fetched, nothing runs."""
    return _template().render(
        page=page, policy=content_policy(), styles=Markup(asset("base.css") + _own("study.css"))
    )


@cache
def _template() -> Template:
    return template("study", _own("study.html.j2"), _seen)


def _seen(value: Any) -> Any:
    """Texts as in the report's page; a picture's address keeps its length."""
    if type(value) is str and value.startswith("data:image/svg+xml;base64,"):
        return value
    return shown(value)


def _own(name: str) -> str:
    return (resources.files("timeroof.study.output") / "assets" / name).read_text("utf-8")
