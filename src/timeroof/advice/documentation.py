"""The documentation of all findings, made from the rules; run as a module to write it anew.

python -m timeroof.advice.documentation docs/findings.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from timeroof.advice.advise import GROUPS, RULES
from timeroof.advice.rule import MIN_SHARE, Rule

_HEAD = f"""# Findings

<!-- Written by `python -m timeroof.advice.documentation docs/findings.md`; edit the rules. -->

`timeroof explain RUN` reads a judged run and names the time that could be saved. A finding's
gain is a limit: time now less the bound after the change, which a cure may lower itself. A second
that several findings claim counts for the first of them: gains add up, never to more than the run.
What a cure gives by itself stands in `evidence.own_gain_s`. Rules are silent
below {MIN_SHARE:.0%} of the run and below the spread of the rows they would name. Codes are stable.
"""


def findings_page() -> str:
    """The page of all rules, by group."""
    parts = [_HEAD, _overview()]
    for prefix, group in GROUPS.items():
        parts.append(f"# {prefix}xx {group}\n")
        parts += [_section(rule) for rule in RULES if rule.code.startswith(prefix)]
    return "\n".join(parts)


def _overview() -> str:
    lines = ["| code | name | finding |", "|---|---|---|"]
    lines += [f"| {r.code} | {r.name} | {r.title} |" for r in RULES]
    return "\n".join(lines) + "\n"


def _section(rule: Rule) -> str:
    lines = [f"## {rule.code} {rule.name}\n", rule.documentation(), "", "**Do.**\n"]
    lines += [f"- {where}: {action}" for where, action in rule.actions.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(findings_page(), encoding="utf-8")
