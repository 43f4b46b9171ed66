"""Data, scripts and styles inside a page, so that nothing in them can end or start a script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

# Order matters: a later file uses what an earlier one defines.
SCRIPTS = (
    "format.js", "data.js", "state.js", "colours.js", "dom.js", "tooltip.js", "points.js",
    "ticks.js", "guides.js", "rooflabels.js", "roofline.js", "planes.js", "empty.js", "charts.js",
    "controls.js", "columns.js", "groups.js", "detail.js", "table.js", "seconds.js", "icicle.js",
    "timeline.js", "main.js",
)  # fmt: skip
STYLES = ("base.css", "headline.css", "charts.css", "table.css", "seconds.css", "print.css")

# plotly.js begins and ends with a function for module loaders, within so many characters.
EDGE = 4096
_OPENS, _CLOSES = '"use strict";var Plotly=', "window.Plotly = Plotly;"

_ESCAPES = {
    b"<": rb"\u003c",
    b">": rb"\u003e",
    b"&": rb"\u0026",
    "\u2028".encode(): rb"\u2028",
    "\u2029".encode(): rb"\u2029",
}


def script_safe_json(data: Any) -> str:
    """JSON that stays one text inside a script element, whatever its strings say.

    >>> script_safe_json(["</script>&"])
    '["\\\\u003c/script\\\\u003e\\\\u0026"]'
    """
    encoded = msgspec.json.encode(data)
    for character, escape in _ESCAPES.items():
        encoded = encoded.replace(character, escape)
    return encoded.decode()


def asset(name: str) -> str:
    """A file of the page's own assets."""
    return (resources.files("timeroof.views") / "assets" / "report" / name).read_text("utf-8")


def page_script() -> str:
    """The page's own script: its files in one function, so that they share names with nobody."""
    parts = [f"// {name}\n{asset(name)}" for name in SCRIPTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "\n})();\n"


def page_styles() -> str:
    """The page's styles."""
    return "\n".join(asset(name) for name in STYLES)


@cache
def plotly_script() -> bytes:
    """plotly.js of the installed package as UTF-8, without a text that could end its element."""
    source = _plotly_folder() / "package_data" / "plotly.min.js"
    # A character per byte: as the text that it is, it would take four bytes for each.
    text = source.read_bytes().decode("latin-1").replace("\r\n", "\n")
    safe = unwrapped(text).replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return safe.encode("latin-1")


def _plotly_folder() -> Path:
    """Where plotly is installed; its Python code is not wanted and not imported."""
    spec = find_spec("plotly")
    assert spec is not None, "plotly is a dependency"
    return Path(next(iter(spec.submodule_search_locations or ())))


def unwrapped(text: str) -> str:
    """plotly.js without the function that offers it to module loaders.

    Browsers parse a function's text once to skip it and again to run it: without the
    wrapper the page is ready a quarter sooner. A file of another form stays as it is.
    """
    # Looked for at the ends only: the text has millions of characters.
    head, found, _ = text[:EDGE].partition(_OPENS)
    _, end, after = text[-EDGE:].rpartition(_CLOSES)
    if not (found and end and "factory" in head and after.split() == ["return", "Plotly;", "}));"]):
        return text
    licence = head.partition("*/")[0] + "*/\n"
    return f"{licence}{text[len(head) : len(text) - len(after)]}\n"


@cache
def _hash_source(script: str | bytes) -> str:
    data = script if isinstance(script, bytes) else script.encode()
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    return f"'sha256-{digest}'"


def content_policy(*scripts: str | bytes) -> str:
    """A policy that runs these scripts alone and lets nothing be fetched."""
    allowed = " ".join(_hash_source(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
