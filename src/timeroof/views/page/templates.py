"""Templates of pages: one way to load and fill them, one head and one palette for all of them.

What is compiled is kept between runs. A page of cases has tables, and charts that the same modules
draw as the report's.
"""

from __future__ import annotations

import base64
import hashlib
import marshal
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from markupsafe import Markup

from timeroof.core import VERSION
from timeroof.core.errors import Note
from timeroof.core.files import kept, stamp
from timeroof.core.units import format_seconds
from timeroof.views.overview import code_parts
from timeroof.views.parts import percent
from timeroof.views.style import (
    LIMITER_WORDS,
    LIMITERS,
    clip,
    limiter_styles,
    page_look,
    plain_lines,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template


VIEWS = "timeroof.views"
# Templates that those of other packages build on.
SHARED = ("base.html.j2", "parts.html.j2")
CHARTS_SCRIPT = "scripts/charts.js"
STATIC_STYLES = ("base.css", "headline.css", "charts.css", "static.css", "print.css")
LONGEST_TEXT = 4_000


def script_safe_json(data: object) -> bytes:
    """JSON that stays one text inside a script element, whatever its strings say.

    Only `</` ends a script, and only `<!` changes how its text is read.

    >>> script_safe_json(["</script>&", "<!--"])
    b'["<\\\\/script>&","\\\\u003c!--"]'
    """
    encoded = msgspec.json.encode(data)
    safe = encoded.replace(b"</", rb"<\/").replace(b"<!", rb"\u003c!")
    return safe.replace(b"<script", rb"\u003cscript")


def asset(path: str, package: str = VIEWS) -> str:
    """A file of a package's assets: a template, a style, a script."""
    return (resources.files(package) / "assets" / path).read_text("utf-8")


def page_styles(names: Iterable[str]) -> Markup:
    """The colours of limiters and the styles of a page."""
    return Markup("\n".join([limiter_styles(), *(asset(f"report/{name}") for name in names)]))


@cache
def hash_source(script: str | bytes) -> str:
    """A script as a content policy names it."""
    data = script if isinstance(script, bytes) else script.encode()
    return f"'sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}'"


def content_policy(*scripts: str, hashes: Sequence[str] = ()) -> str:
    """A policy that runs these scripts, and those of these hashes, and lets nothing be fetched."""
    allowed = " ".join((*map(hash_source, scripts), *hashes))
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def shown(value: object) -> object:
    """What a template writes: texts of files lose what cannot be seen and their excess length.

    >>> shown("a\x07b"), shown(3)
    ('a\ufffdb', 3)
    """
    if type(value) is str or isinstance(value, Note):
        return clip(plain_lines(value), LONGEST_TEXT)
    return value


_WITH_UNIT = re.compile(r"[\d.,]{1,30} (?:%|[nµm]?s\b|[kMGT]?B\b)")


def whole(text: str) -> Markup:
    """A text whose numbers keep their units on the same line.

    >>> whole("5 % <of> it")
    Markup('<span class="nb">5 %</span> &lt;of&gt; it')
    """
    escaped = str(Markup.escape(shown(text)))
    return Markup(_WITH_UNIT.sub(r'<span class="nb">\g<0></span>', escaped))


@cache
def page_template(path: str, package: str = VIEWS) -> Template:
    """The template of a page by the file that it is in; it may extend the base of all pages."""
    import jinja2

    class Kept(jinja2.BaseLoader):
        def load(
            self,
            environment: Environment,
            name: str,
            globals: object = None,  # noqa: A002
        ) -> Template:
            return _kept_template(environment, name, VIEWS if name in SHARED else package)

    # Hostile names stay text, a name that is missing is an error, tags leave no empty lines.
    environment = jinja2.Environment(
        loader=Kept(), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, finalize=shown,
    )  # fmt: skip
    environment.filters |= {
        "seconds": format_seconds,
        "share": percent,
        "code_parts": code_parts,
        "whole": whole,
    }
    return environment.get_template(path)


def _kept_template(environment: Environment, path: str, package: str) -> Template:
    from jinja2 import Template, compiler

    name, text = Path(path).name.partition(".")[0], asset(path, package)
    # Compiling takes longer than filling in, and depends on these alone.
    key = "\n".join(
        [sys.version, stamp(Path(compiler.__file__)), stamp(Path(__file__)), name, text]
    )
    code = kept(f"template-{name}", key, lambda: marshal.dumps(environment.compile(text, path)))
    return Template.from_code(environment, marshal.loads(code), environment.make_globals({}))


class Table(msgspec.Struct, frozen=True):
    """A table of a page: texts only; columns of figures are right-aligned."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @property
    def figures(self) -> list[bool]:
        """Whether a column holds figures: all of its cells that say something begin with one."""
        return [
            any(texts) and all(_FIGURE.match(text) for text in texts if text)
            for texts in ([row[k] for row in self.rows] for k in range(len(self.heads)))
        ]


_FIGURE = re.compile(
    r"[-+−]?[\d.,]+(–[\d.,]+)?(e[-+]?\d+)?( ?[%×x]| ?[numkMGTPµ]?[sB]\b|$| )|\?$|–$"
)


class BarLine(msgspec.Struct, frozen=True):
    """A line of a chart of bars: pieces as left end, width and class, a text at the bar's end.

    `interval` is drawn as a thin line below the bar, `note` stands behind the text.
    """

    label: str
    pieces: Sequence[tuple[float, float, str]]
    text: str
    note: str = ""
    interval: tuple[float, float] | None = None

    @property
    def end(self) -> float:
        """Where the bar ends."""
        return max((left + width for left, width, _ in self.pieces), default=0.0)


def charts_page(
    template: str,
    charts: Mapping[str, Charted],
    *,
    package: str = VIEWS,
    styles: str = "",
    words: Mapping[str, str] | None = None,
    **context: object,
) -> str:
    """A page of cases by its template: the charts draw themselves where it names their keys.

    `words` are the page's own for what limits a case.
    """
    script, look = asset(CHARTS_SCRIPT), page_look()
    look["words"] = {**LIMITER_WORDS, **(words or {})}
    return page_template(template, package).render(
        context,
        policy=content_policy(script),
        styles=page_styles(STATIC_STYLES) + Markup(styles),
        kinds=LIMITERS,
        data=Markup(script_safe_json({"look": look, "charts": charts}).decode()),
        script=Markup(script),
    )


def static_page(
    title: str,
    lead: str,
    *,
    notes: Sequence[str],
    pictures: Sequence[tuple[Markup, str]] = (),
    tables: Sequence[Table] = (),
    charts: Mapping[str, Charted] | None = None,
    **more: Any,
) -> str:
    """A page of pictures with captions and of tables that opens from disk, light or dark."""
    absent: dict[str, Any] = {
        "kind": "", "bars": (), "bars_key": (), "bars_title": "", "bars_note": "",
    }  # fmt: skip
    return charts_page(
        "static.html.j2",
        charts or {},
        drawn=charts or {},
        **(absent | more),
        title=title,
        lead=lead,
        notes=notes,
        pictures=pictures,
        tables=[table for table in tables if table.rows or table.note],
        version=VERSION,
    )


class ChartRoofs(msgspec.Struct, frozen=True):
    """The two roofs of a combined chart, and the cost of a launch where it is to be shown."""

    flops_per_s: float
    bytes_per_s: float
    launch_s: float | None
    compute: str
    memory: str


class ChartCase(msgspec.Struct, frozen=True):
    """A case of a chart: its work, its time, and that time on the axes of the chart.

    `value` is its place among the frame's values, `series` among the chart's series; `other` marks
    a case of another machine, of which only the time is drawn.
    """

    name: str
    value: int
    time_s: float
    limiter: str
    series: int = 0
    flops: float | None = None
    bytes: float | None = None
    bandwidth_time_s: float | None = None
    compute_time_s: float | None = None
    bound_s: float | None = None
    launches: float | None = None
    words: str = ""
    other: bool = False


class ChartFrame(msgspec.Struct, frozen=True):
    """Cases that are shown together: the values of one parameter, or all."""

    label: str
    axis: str
    values: Sequence[str]
    cases: Sequence[ChartCase]


class Charted(msgspec.Struct, frozen=True):
    """A chart: the combined one, or time over the values of a parameter.

    Colours tell series apart where there are several, else what limits a case.
    """

    kind: Literal["combined", "sweep"]
    title: str
    frames: Sequence[ChartFrame]
    roofs: ChartRoofs | None = None
    series: Sequence[str] = ()
    # What the crosses are: the other machine's name.
    other: str = ""
    small: bool = False
