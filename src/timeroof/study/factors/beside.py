"""The paper's numbers beside a study's: a few words per factor, from the published rows."""

from __future__ import annotations

import math
from functools import cache

from timeroof.core.report import Finding
from timeroof.core.units import format_seconds
from timeroof.paper import BASE_CASE
from timeroof.paper.build import build_paper
from timeroof.study.factors.conclusion import Conclusion, times
from timeroof.study.factors.published import paper_findings, published_cases
from timeroof.study.judged_cases import Row

FRAMEWORK = "PT"


@cache
def paper_rows() -> tuple[Row, ...]:
    """The published passes as cases of a study."""
    return tuple(published_cases(build_paper().rows))


@cache
def _findings() -> dict[str, Finding]:
    report = build_paper()
    assert report.machine is not None
    return {f.code.partition("/")[2]: f for f in paper_findings(report.rows, report.machine)}


def paper_case(op: str, **changed: object) -> Row | None:
    """The authors' forward pass in PyTorch, FP32, of a kernel; None where they have none."""
    wanted = BASE_CASE.get(op, {}) | changed
    return next(
        (
            row
            for row in paper_rows()
            if (row.op, row.framework, row.precision, row.pass_name)
            == (op, FRAMEWORK, "fp32", "forward")
            and row.params == wanted
        ),
        None,
    )


def paper_words(conclusion: Conclusion) -> str | None:
    """What the authors' numbers say of a factor, in a few words.

    >>> from timeroof.study.factors.conclusion import Conclusion
    >>> paper_words(Conclusion("autotune", True, "", []))
    'V100: up to 4.9×'
    """
    words = {
        "intensity": _intensity,
        "locality": _locality,
        "autotune": _autotune,
        "launch": _launch,
        "precision": _precision,
    }[conclusion.factor](conclusion)
    return f"V100: {words}" if words else None


def _intensity(conclusion: Conclusion) -> str | None:
    pair = conclusion.facts.get("pair")
    ends = (
        [paper_case(pair["kernel"], **{pair["parameter"]: value}) for value in pair["values"]]
        if pair
        else []
    )
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    poor, rich = ends[0], ends[1]
    work = (rich.flops or math.nan) / (poor.flops or math.nan)
    return f"{times(work)} the work in {times(rich.time_s / poor.time_s)} the time"


def _locality(conclusion: Conclusion) -> str | None:
    found = _findings()["locality"].evidence["time_ratio"]
    values = sorted(found) if isinstance(found, list) else sorted(found.values())
    # The authors compared frameworks, and neither layouts within one nor cold caches.
    other = "" if conclusion.lead is None or conclusion.lead.kind == "layout" else "not measured; "
    return f"{other}conv2d in TensorFlow, with layout kernels, takes {_span(values)} PyTorch's time"


def _autotune(conclusion: Conclusion) -> str | None:
    return f"up to {times(_findings()['autotune'].evidence['time_ratio'])}"


def _launch(conclusion: Conclusion) -> str | None:
    machine = build_paper().machine
    spans = _findings()["launch"].evidence["overhead_share"]
    shares = [v for name, span in spans.items() if name.startswith("lstm") for v in span]
    each = format_seconds(machine.launch_overhead_s, 2) if machine else "?"
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{each} per launch, {low}–{high} % of an LSTM"


def _precision(conclusion: Conclusion) -> str | None:
    gain = _findings()["tensor-cores"].evidence["gain_where_used"]
    return f"FP16 is {_span(gain)} as fast on tensor cores"


def _span(values: list[float]) -> str:
    low, high = (f"{value:.1f}" for value in (min(values), max(values)))
    return f"{low}–{high}×"
