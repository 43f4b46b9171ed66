"""Write the documents that are made from the code: docs/schemas and docs/findings.md.

python tools/write_docs.py          # or `make schemas`
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from timeroof.advice.advise import GROUPS, RULES
from timeroof.advice.rule import MIN_SHARE, Rule
from timeroof.core.report import MachineDocument, report_document_type

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCHEMAS: dict[str, object] = {
    "timeroof.report-2.json": report_document_type(),
    "timeroof.report-2.machine.json": MachineDocument,
}
_HEAD = f"""# Findings

<!-- Written by `python tools/write_docs.py`; edit the rules. -->

`timeroof explain RUN` reads a judged run and names the time that could be saved. A finding's
gain is a limit: time now less the bound after the change, which a cure may lower itself. A second
that several findings claim counts for the first of them: gains add up, never to more than the run.
What a cure gives by itself stands in `evidence.own_gain_s`. Rules are silent
below {MIN_SHARE:.0%} of the run and below the spread of the rows they would name. Codes are stable.
"""


def main() -> None:
    """Write all of them anew."""
    folder = DOCS / "schemas"
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in SCHEMAS.items():
        (folder / name).write_text(schema_text(kind), encoding="utf-8")
    (DOCS / "findings.md").write_text(findings_page(), encoding="utf-8")


def schema_text(kind: object) -> str:
    """The JSON Schema of a document, formatted."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(kind),
    }
    return (
        msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=1).decode() + "\n"
    )


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
    main()
