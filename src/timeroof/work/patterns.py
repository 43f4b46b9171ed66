"""Ops that are recognised by the form of their name instead of by the whole of it."""

from __future__ import annotations

from collections.abc import Callable

from timeroof.work.registry import Rule

Pattern = Callable[[str], Rule | None]

_PATTERNS: list[Pattern] = []


def pattern(function: Pattern) -> Pattern:
    """Register a function that may know a rule for a name."""
    _PATTERNS.append(function)
    return function


def rule_by_pattern(name: str) -> Rule | None:
    """The rule of the first pattern that knows the name."""
    for known in _PATTERNS:
        rule = known(name)
        if rule is not None:
            return rule
    return None
