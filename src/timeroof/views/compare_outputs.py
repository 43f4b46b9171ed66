"""What `compare` and `whatif` can write: the document, and the views that are made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeroof.core.errors import TimeroofError
from timeroof.views.compare import markdown_comparison
from timeroof.views.compare_files import Outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison
    from timeroof.model.whatif.document import WhatIf
    from timeroof.views.compare_page import Drawing

ARROWS = (
    "Work and time of matched kernels. Small dots: work; circles: time, open before and filled"
    " after. Along a diagonal the work is the same: down is faster. Seconds on the axes are those"
    " of the first run's machine."
)
BARS = "Seconds by what limits them; whiskers are the interval, dotted ticks the bound."


def comparison_outputs(result: Comparison, a: Report, b: Report) -> Outputs:
    """The outputs of `compare`."""
    document = result.document()

    def figures() -> dict[str, Figure]:
        from timeroof.views.compare_chart import comparison_figure

        return {"compare": comparison_figure(result, a, b)}

    def page() -> str:
        from timeroof.views.compare_page import comparison_page

        return comparison_page(document, _drawings(figures, {"compare": ARROWS}))

    return Outputs("compare", document, lambda: markdown_comparison(document), page, figures)


def whatif_outputs(result: WhatIf) -> Outputs:
    """The outputs of `whatif`."""
    document = result.document()

    def figures() -> dict[str, Figure]:
        from timeroof.views.whatif_chart import whatif_figures

        return whatif_figures(result)

    def page() -> str:
        from timeroof.views.whatif_page import whatif_page

        return whatif_page(document, _drawings(figures, {"machines": BARS}))

    def markdown() -> str:
        from timeroof.views.whatif_page import markdown_whatif

        return markdown_whatif(document)

    return Outputs("whatif", document, markdown, page, figures)


def _drawings(figures: object, captions: dict[str, str]) -> list[Drawing]:
    """Pictures with their captions; none where a run cannot be drawn, the tables remain."""
    from timeroof.views.compare_page import Drawing

    assert callable(figures)
    try:
        made: dict[str, Figure] = figures()
    except TimeroofError:
        return []
    return [Drawing(figure, captions.get(name, ARROWS)) for name, figure in made.items()]
