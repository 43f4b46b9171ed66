"""Pictures for papers: complexity plane, time plane, combined chart, hierarchical roofline."""

from timeroof.views.pictures.combined import combined_chart
from timeroof.views.pictures.frame import FigureSize, save_figure
from timeroof.views.pictures.hierarchical import hierarchical_roofline
from timeroof.views.pictures.planes import complexity_plane, time_plane
from timeroof.views.pictures.points import Look, Roofs, Unit

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
