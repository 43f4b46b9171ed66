"""Templates of pages: one way to make them, and their compiled form kept between runs."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeroof.core.kept import kept, stamp
from timeroof.core.units import format_seconds

if TYPE_CHECKING:
    from jinja2 import Template


def template(name: str, text: str, finalize: Callable[[Any], Any]) -> Template:
    """The template of a page; `finalize` is what becomes of every value that it writes."""
    import jinja2
    from jinja2 import compiler

    # Hostile names stay text, a name that is missing is an error, tags leave no empty lines.
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    environment.filters["seconds"] = format_seconds
    # Compiling takes longer than filling in, and depends on these alone.
    key = "\n".join(
        [sys.version, stamp(Path(compiler.__file__)), stamp(Path(__file__)), name, text]
    )
    code = kept(f"template-{name}", key, lambda: marshal.dumps(environment.compile(text, name)))
    return jinja2.Template.from_code(environment, marshal.loads(code), environment.make_globals({}))
