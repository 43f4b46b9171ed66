"""Kernel names speak: what a name says of library, precision, algorithm, and a short name."""

from timeroof.work.names.facts import NameFacts, name_facts_table, read_name

__all__ = ["NameFacts", "name_facts_table", "read_name"]
