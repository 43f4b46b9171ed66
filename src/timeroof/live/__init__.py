"""Programs profiled while they run: sources, counting, the machine and the model joined."""

from timeroof.live.profiling import Profiler, profile, step
from timeroof.sources.live.torch_run.costing import cost

__all__ = ["Profiler", "cost", "profile", "step"]
