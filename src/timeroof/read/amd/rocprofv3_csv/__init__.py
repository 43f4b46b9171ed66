"""rocprofv3's CSV tables, alone or as the folder of a run."""

from timeroof.read.amd.rocprofv3_csv.reader import FORMAT

__all__ = ["FORMAT"]
