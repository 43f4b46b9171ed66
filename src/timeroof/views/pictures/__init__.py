"""Pictures for papers: complexity plane, time plane, combined chart, hierarchical roofline."""

from timeroof.views.pictures.charts import (
    combined_chart,
    complexity_plane,
    hierarchical_roofline,
    time_plane,
)
from timeroof.views.pictures.frame import FigureSize, Look, Roofs, Unit, save_figure

__all__ = [
    "FigureSize", "Look", "Roofs", "Unit", "combined_chart", "complexity_plane",
    "hierarchical_roofline", "save_figure", "time_plane",
]  # fmt: skip
