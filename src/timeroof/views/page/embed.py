"""Data, scripts and styles inside a page, so that nothing in them can end or start a script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from timeroof.core.kept import kept, stamp

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


class _Plotly(msgspec.Struct, frozen=True):
    """What of plotly.js goes into a page: a licence, its bytes from here to there, a line end."""

    hash: str
    licence: str
    start: int
    stop: int
    # Whether something in it would end its element or is a foreign line end.
    escaped: bool


def plotly_script() -> list[bytes | memoryview]:
    """plotly.js of the installed package as UTF-8, in pieces: nothing in it ends its element."""
    known = _known_plotly()
    data = _plotly_file().read_bytes()
    return _pieces(_escaped(data) if known.escaped else data, known)


def plotly_hash() -> str:
    """The source of plotly's script for a policy."""
    return _known_plotly().hash


@cache
def _known_plotly() -> _Plotly:
    """Kept between runs: to search and hash these megabytes takes as long as a small file."""
    facts = "\n".join((stamp(_plotly_file()), stamp(Path(__file__))))
    made = kept("plotly", facts, lambda: msgspec.json.encode(_look(_plotly_file().read_bytes())))
    return msgspec.json.decode(made, type=_Plotly)


def _look(data: bytes) -> _Plotly:
    safe = _escaped(data)
    head, tail = (edge.decode("latin-1") for edge in (safe[:EDGE], safe[-EDGE:]))
    licence, before, after = _wrapper(head, tail) or ("", 0, 0)
    known = _Plotly("", licence, before, len(safe) - after, escaped=safe != data)
    return msgspec.structs.replace(known, hash=_hash_source(b"".join(_pieces(safe, known))))


def _escaped(data: bytes) -> bytes:
    unix = data.replace(b"\r\n", b"\n")
    return unix.replace(b"</script", b"<\\/script").replace(b"<!--", b"<\\!--")


def _pieces(data: bytes, known: _Plotly) -> list[bytes | memoryview]:
    return [known.licence.encode("latin-1"), memoryview(data)[known.start : known.stop], b"\n"]


@cache
def _plotly_file() -> Path:
    """The installed plotly.js; plotly's Python code is not wanted and not imported."""
    spec = find_spec("plotly")
    assert spec is not None, "plotly is a dependency"
    folder = next(iter(spec.submodule_search_locations or ()))
    return Path(folder) / "package_data" / "plotly.min.js"


def unwrapped(text: str) -> str:
    """plotly.js without the function that offers it to module loaders.

    Browsers parse a function's text once to skip it and again to run it: without the
    wrapper the page is ready a quarter sooner. A file of another form stays as it is.
    """
    wrapper = _wrapper(text[:EDGE], text[-EDGE:])
    if wrapper is None:
        return text
    licence, before, after = wrapper
    return f"{licence}{text[before : len(text) - after]}\n"


def _wrapper(head: str, tail: str) -> tuple[str, int, int] | None:
    """The licence before the wrapper, and how long wrapper's two ends are; None without one."""
    before, opens, _ = head.partition('"use strict";var Plotly=')
    _, closes, after = tail.rpartition("window.Plotly = Plotly;")
    is_wrapper = after.split() == ["return", "Plotly;", "}));"] and "factory" in before
    if not (opens and closes and is_wrapper):
        return None
    return before.partition("*/")[0] + "*/\n", len(before), len(after)


@cache
def _hash_source(script: str | bytes) -> str:
    data = script if isinstance(script, bytes) else script.encode()
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    return f"'sha256-{digest}'"


def content_policy(*scripts: str, hashes: Sequence[str] = ()) -> str:
    """A policy that runs these scripts, and those of these hashes, and lets nothing be fetched."""
    allowed = " ".join((*map(_hash_source, scripts), *hashes))
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
