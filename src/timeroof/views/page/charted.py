"""What pages without a run's kernels hand to the chart's script: cases, in frames, on two roofs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class ChartRoofs(msgspec.Struct, frozen=True):
    """The two roofs of a combined chart, and the cost of a launch where it is to be shown."""

    flops_per_s: float
    bytes_per_s: float
    launch_s: float | None
    compute: str
    memory: str


class ChartCase(msgspec.Struct, frozen=True):
    """A case of a chart: its work, its time, and that time on the axes of the chart.

    `value` is its place among the frame's values, `series` among the chart's series; `other` marks
    a case of another machine, of which only the time is drawn.
    """

    name: str
    value: int
    time_s: float
    limiter: str
    series: int = 0
    flops: float | None = None
    bytes: float | None = None
    bandwidth_time_s: float | None = None
    compute_time_s: float | None = None
    bound_s: float | None = None
    launches: float | None = None
    words: str = ""
    other: bool = False


class ChartFrame(msgspec.Struct, frozen=True):
    """Cases that are shown together: the values of one parameter, or all."""

    label: str
    axis: str
    values: Sequence[str]
    cases: Sequence[ChartCase]


class Charted(msgspec.Struct, frozen=True):
    """A chart: the combined one, or time over the values of a parameter.

    Colours tell series apart where there are several, else what limits a case.
    """

    kind: Literal["combined", "sweep"]
    title: str
    frames: Sequence[ChartFrame]
    roofs: ChartRoofs | None = None
    series: Sequence[str] = ()
    # What the crosses are: the other machine's name.
    other: str = ""
    small: bool = False
