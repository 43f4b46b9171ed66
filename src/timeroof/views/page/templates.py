"""Templates of pages: one way to load and fill them, and their compiled form kept between runs."""

from __future__ import annotations

import marshal
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.core.files import kept, stamp
from timeroof.core.notes import Note
from timeroof.core.units import format_seconds
from timeroof.views.plain import clip, plain_lines

if TYPE_CHECKING:
    from jinja2 import Template

VIEWS = "timeroof.views"
LONGEST_TEXT = 4_000


def asset(path: str, package: str = VIEWS) -> str:
    """A file of a package's assets: a template, a style, a script."""
    return (resources.files(package) / "assets" / path).read_text("utf-8")


def shown(value: object) -> object:
    """What a template writes: texts of files lose what cannot be seen and their excess length.

    >>> shown("a\x07b"), shown(3)
    ('a\ufffdb', 3)
    """
    if type(value) is str or isinstance(value, Note):
        return clip(plain_lines(value), LONGEST_TEXT)
    return value


@cache
def page_template(path: str, package: str = VIEWS) -> Template:
    """The template of a page by the file that it is in."""
    import jinja2
    from jinja2 import compiler

    name, text = Path(path).name.partition(".")[0], asset(path, package)
    # Hostile names stay text, a name that is missing is an error, tags leave no empty lines.
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters["seconds"] = format_seconds
    # Compiling takes longer than filling in, and depends on these alone.
    key = "\n".join(
        [sys.version, stamp(Path(compiler.__file__)), stamp(Path(__file__)), name, text]
    )
    code = kept(f"template-{name}", key, lambda: marshal.dumps(environment.compile(text, name)))
    return jinja2.Template.from_code(environment, marshal.loads(code), environment.make_globals({}))
