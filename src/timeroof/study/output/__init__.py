"""What a study leaves to read: one page with charts, tables and conclusions, and its data."""

from timeroof.study.output.page import write_study

__all__ = ["write_study"]
