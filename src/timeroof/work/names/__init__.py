"""Kernel names speak: what a name says of library, precision, algorithm, and a short name."""

from timeroof.work.names.facts import NameFacts, read_name
from timeroof.work.names.table import name_facts_table

__all__ = ["NameFacts", "name_facts_table", "read_name"]
