"""Pictures for papers: complexity plane, time plane, combined chart, hierarchical roofline."""

from timeroof.views.figures.combined import combined_chart
from timeroof.views.figures.frame import FigureSize, save_figure
from timeroof.views.figures.hierarchical import hierarchical_roofline
from timeroof.views.figures.planes import complexity_plane, time_plane
from timeroof.views.figures.points import Look, Roofs, Unit

__all__ = [
    "FigureSize",
    "Look",
    "Roofs",
    "Unit",
    "combined_chart",
    "complexity_plane",
    "hierarchical_roofline",
    "save_figure",
    "time_plane",
]
