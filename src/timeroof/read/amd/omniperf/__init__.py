"""Omniperf / rocprof-compute workload folders."""

from timeroof.read.amd.omniperf.reader import FORMAT

__all__ = ["FORMAT"]
