"""`timeroof check RUN --baseline BASE`: a gate for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli.options import JsonTarget, JudgingMachine, MarkdownTarget, StepKindName

if TYPE_CHECKING:
    from timeroof.core.report import Report
    from timeroof.model.check.gate import Limits

DEFAULT_SLOWDOWN = "5%"


def check(
    run: Annotated[Path, typer.Argument(help="The run to check: .troof or a profiler's file.")],
    baseline: Annotated[Path | None, typer.Option(help="The run that it is held against.")] = None,
    max_slowdown: Annotated[
        str | None,
        typer.Option(
            help="How much slower than the baseline it may be, such as 5% or 0.05. [default: 5%]"
        ),
    ] = None,
    min_efficiency: Annotated[
        str | None, typer.Option(help="The least efficiency (bound / elapsed), such as 40%.")
    ] = None,
    max_launches: Annotated[int | None, typer.Option(help="The most launches.")] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit of your own: 'phase=backward:time<12ms', 'op=aten::mm:efficiency>60%',"
            " 'time<105%' (of the baseline); may be repeated."
        ),
    ] = None,
    machine: JudgingMachine = None,
    step_kind: StepKindName = None,
    json: JsonTarget = None,
    markdown: MarkdownTarget = None,
) -> None:
    """Fail with exit code 1 where a run breaks a limit by more than the noise.

    Example: `timeroof check run.troof --baseline main.troof --max-slowdown 5%`
    """
    import msgspec

    from timeroof.api.reports import load
    from timeroof.cli.options import keep_inputs, write_json
    from timeroof.core.errors import GateFailedError
    from timeroof.core.files import write_atomically
    from timeroof.model.check.gate import check as check_limits
    from timeroof.views.check import markdown_check, print_check

    limits = _limits(baseline, max_slowdown, min_efficiency, max_launches, rule or [])
    keep_inputs((run, baseline, machine), (json, markdown))
    report = load(run, machine=machine, step_kind=step_kind)
    base = None
    if baseline is not None:
        base = load(baseline, machine=machine, step_kind=step_kind)
    result = check_limits(report, base, limits)
    document = result.document()
    if json is not None:
        write_json(msgspec.json.encode(document), json)
    if markdown is not None:
        text = markdown_check(document, _comparison(report, base, (str(baseline), str(run))))
        write_atomically(markdown, text.encode())
    print_check(document)
    if not result.passed:
        broken = [limit.what for limit in result.limits if not limit.passed]
        raise GateFailedError(
            f"{len(broken)} of {len(result.limits)} limits failed: {', '.join(broken)}"
        )


def _limits(
    baseline: Path | None,
    max_slowdown: str | None,
    min_efficiency: str | None,
    max_launches: int | None,
    rules: list[str],
) -> Limits:
    """The limits that were asked for; a baseline alone asks for the default slow-down."""
    from timeroof.core.errors import UsageError
    from timeroof.model.check.gate import Limits
    from timeroof.model.check.limits import parse_percent, parse_rule

    parsed = tuple(parse_rule(text) for text in rules)
    if baseline is None and max_slowdown is not None:
        raise UsageError(
            "a slow-down needs something to be slower than", advice="name a run with --baseline"
        )
    relative = next((r.text for r in parsed if r.relative), None)
    if baseline is None and relative is not None:
        raise UsageError(
            f"rule {relative!r} is a share of a baseline's value, and there is no baseline",
            advice="name a run with --baseline, or write the limit without %",
        )
    if baseline is None and min_efficiency is None and max_launches is None and not parsed:
        raise UsageError("nothing is to be checked", advice="give --baseline or a limit")
    if max_launches is not None and max_launches < 0:
        raise UsageError(f"--max-launches {max_launches} can never hold", advice="use 0 or more")
    least = None if min_efficiency is None else parse_percent(min_efficiency)
    if least is not None and not 0 < least <= 1:
        raise UsageError(
            f"--min-efficiency {min_efficiency} is no limit", advice="use more than 0%, up to 100%"
        )
    default = DEFAULT_SLOWDOWN if baseline is not None else None
    slowdown = default if max_slowdown is None else max_slowdown
    most = None if slowdown is None else parse_percent(slowdown, plain_up_to=1.0)
    if most is not None and most <= 0:
        raise UsageError(f"--max-slowdown {slowdown} is no limit", advice="use more than 0%")
    return Limits(max_slowdown=most, min_efficiency=least, max_launches=max_launches, rules=parsed)


def _comparison(report: Report, base: Report | None, names: tuple[str, str]) -> str:
    """What changed against the baseline, as Markdown."""
    from timeroof.model.compare.compare import compare
    from timeroof.views.compare import markdown_comparison

    if base is None:
        return ""
    return markdown_comparison(compare(base, report, names).document())
