"""Pictures inside a page: SVG with its letters as outlines, so that every reader sees the same."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from timeroof.views.pictures.frame import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg_data(figure: Figure) -> str:
    """A figure as the address of an image; an image cannot run a script whatever its texts say."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with styled(), rc_context({"svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def shape_of(figure: Figure) -> tuple[int, int]:
    """Width and height in CSS pixels, so that a page does not jump while it loads."""
    width, height = figure.get_size_inches()
    return round(96 * width), round(96 * height)
