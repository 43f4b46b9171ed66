"""Profiler files of every vendor: one file per format, sniffed from content."""
