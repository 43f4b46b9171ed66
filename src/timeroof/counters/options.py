"""What a collection may be told, and what it hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from timeroof.core.profile import Profile
from timeroof.read.formats import Progress, silent

Region = Literal["all", "profiler"]


@dataclass(frozen=True)
class CollectOptions:
    """How to collect.

    `region`: "all" of the program, or with "profiler" what lies between cudaProfilerStart and
    Stop (roctx resume and pause).
    `metrics_per_run`: how many metrics one run of the program collects; None leaves it to the
    profiler, 1 is the paper's way.
    """

    region: Region = "all"
    cache: Literal["flush", "keep"] = "flush"
    metrics_per_run: int | None = None
    # Where the profiler's files stay; without it they are gone once they are read.
    folder: Path | None = None
    working_folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    # The environment that `environment` is added to, in place of this process's own: a program
    # that ran in this process may have changed that.
    surroundings: Mapping[str, str] | None = None
    timeout_s: float | None = None
    grace_s: float = 20.0
    progress: Progress = silent
    # What the clean run showed, for the forecast.
    expected_kernels: int | None = None
    clean_s: float | None = None
    # perf: a region is two repetitions less one; the median of so many rounds.
    subtract: bool = False
    rounds: int = 3
    system_wide: bool = False


@dataclass(frozen=True)
class Collected:
    """What was counted: the profile, single launches in order, and what came from where."""

    profile: Profile
    tool: str
    version: str
    architecture: str
    commands: tuple[tuple[str, ...], ...]
    metrics: tuple[str, ...]
    # Metric -> why it was not collected.
    not_collected: dict[str, str] = field(default_factory=dict)
    launches: pl.DataFrame | None = None
    # Stopped before its end; the profile is what there was until then.
    interrupted: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about the numbers."""
        return self.profile.notes
