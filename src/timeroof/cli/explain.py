"""`timeroof explain RUN`: how fast it could be and the findings; `--row ID`: one row's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget, JudgingMachine, StepKindName


def explain(
    run: Annotated[Path, typer.Argument(help="A saved run (.troof) or a profiler's file.")],
    code: Annotated[
        list[str] | None,
        typer.Option(help="Show only findings with this code, such as TR101; may be repeated."),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(
            metavar="ID",
            help="Explain every number of this row; ids are in --json and on the page.",
            show_default=False,
        ),
    ] = None,
    machine: JudgingMachine = None,
    step_kind: StepKindName = None,
    json: JsonTarget = None,
) -> None:
    """List what to optimise, how much it could save, and why.

    Shows how fast the run could be, then the findings, largest gain first. `--row` shows how every
    number of one row came about instead: formula, sizes, ceiling and source.

    Example: `timeroof explain run.troof --code TR101`, `timeroof explain run.troof --row 0`
    """
    from dataclasses import replace

    from timeroof.advice import advise, rule_of
    from timeroof.api.reports import load
    from timeroof.cli.options import keep_inputs, write_json
    from timeroof.views.run_summary import print_explanation, print_why

    codes = None if not code else [rule_of(c).code for c in code]
    keep_inputs((run, machine), (json,))
    report = load(run, machine=machine, step_kind=step_kind)
    if row is not None:
        why = report.why(row)
        if json is not None:
            write_json(why.to_json(), json)
        print_why(why, stderr=json is not None)
        return
    findings = list(report.findings) if codes is None else advise(report, codes)
    if json is not None:
        write_json(replace(report, findings=tuple(findings)).to_json(), json)
    print_explanation(report, findings, stderr=True)
