"""A picture inside a page: SVG whose colours are the page's, so that it can be light or dark."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from timeroof.views.palette import LIMITERS
from timeroof.views.pictures.frame import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that all charts share, and what a page calls them.
THEME = {
    "#ffffff": "var(--paper)",
    "#000000": "var(--ink)",
    "#202020": "var(--ink)",
    "#7a7a7a": "var(--guide)",
    "#d5d5d5": "var(--grid)",
    **{look.print.lower(): f"var(--{kind})" for kind, look in LIMITERS.items()},
}


def themed_svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an SVG element of a page; `name` keeps its ids apart from other pictures'."""
    from markupsafe import escape

    target = io.StringIO()
    with styled():
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # Without this, texts have the browser's default colour whatever the page's theme is.
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
    for colour, variable in THEME.items():
        svg = re.sub(re.escape(colour) + r"(?![0-9a-f])", variable, svg, flags=re.I)
    return _own_ids(svg, name)


def _own_ids(svg: str, name: str) -> str:
    """Ids of one picture that no other picture of the page has."""
    svg = re.sub(r'(\bid=")', rf"\1{name}-", svg)
    svg = re.sub(r"(url\(#)", rf"\1{name}-", svg)
    return re.sub(r'(href="#)', rf"\1{name}-", svg)
