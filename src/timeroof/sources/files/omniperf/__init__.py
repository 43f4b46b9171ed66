"""Omniperf / rocprof-compute workload folders."""

from timeroof.sources.files.omniperf.reader import FORMAT

__all__ = ["FORMAT"]
