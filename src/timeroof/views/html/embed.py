"""Data, scripts and styles inside a page, so that nothing in them can end or start a script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
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
def plotly_script() -> str:
    """plotly.js of the installed package, without a text that could end its element."""
    source = resources.files("plotly") / "package_data" / "plotly.min.js"
    text = source.read_text("utf-8").replace("\r\n", "\n")
    return unwrapped(text).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def unwrapped(text: str) -> str:
    """plotly.js without the function that offers it to module loaders.

    Browsers parse a function's text once to skip it and again to run it: without the
    wrapper the page is ready a quarter sooner. A file of another form stays as it is.
    """
    head, found, rest = text.partition('"use strict";var Plotly=')
    bundle, end, after = rest.rpartition("window.Plotly = Plotly;")
    if not (found and end and "factory" in head and after.split() == ["return", "Plotly;", "}));"]):
        return text
    licence = head.partition("*/")[0] + "*/\n"
    return f"{licence}{found}{bundle}{end}\n"


@cache
def _hash_source(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def content_policy(*scripts: str) -> str:
    """A policy that runs these scripts alone and lets nothing be fetched."""
    allowed = " ".join(_hash_source(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
