"""`timeroof explain RUN`: the ladder of limits and the findings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget, JudgingMachine


def explain(
    run: Annotated[Path, typer.Argument(help="A saved run (.troof) or a profiler's file.")],
    code: Annotated[
        list[str] | None,
        typer.Option(help="Show only findings with this code, such as TR101; may be repeated."),
    ] = None,
    machine: JudgingMachine = None,
    json: JsonTarget = None,
) -> None:
    """Say which seconds can come back, by what change, with what evidence.

    First the ladder of limits: as it ran, every kernel at its roof, fused, ideal. Then the
    findings, largest gain first; a second that several claim counts once in the total.

    Example: `timeroof explain run.troof --code TR101`
    """
    from dataclasses import replace

    from timeroof.advice import advise, rule_of
    from timeroof.api.reports import load
    from timeroof.cli.outputs import keep_inputs, write_json
    from timeroof.views.explain import print_explanation

    codes = None if not code else [rule_of(c).code for c in code]
    keep_inputs((run, machine), (json,))
    report = load(run, machine=machine)
    findings = list(report.findings) if codes is None else advise(report, codes)
    if json is not None:
        write_json(replace(report, findings=tuple(findings)).to_json(), json)
    print_explanation(report, findings, stderr=True)
