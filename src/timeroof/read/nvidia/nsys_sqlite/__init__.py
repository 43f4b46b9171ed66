"""Nsight Systems' SQLite export; also what all readers of ours with timestamps or SQLite share."""

from timeroof.read.nvidia.nsys_sqlite.reader import FORMAT

__all__ = ["FORMAT"]
