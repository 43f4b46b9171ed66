"""What bounds a kernel as it grows: launch, caches, DRAM; launch, compute."""

from __future__ import annotations

from tests.study.factor_samples import DRAM, LAUNCH_S, PEAK, study_machine
from timeroof.study.case import Case, Result
from timeroof.study.output.charted import kernel_parts
from timeroof.study.regimes import crossovers, regimes
from timeroof.study.report import Study, judged_study

# Sizes and rates of the sample machine's caches.
LEVELS = {"l1": (0, 400e9), "l2": (1 << 16, 200e9), "l3": (1 << 21, 80e9), "dram": (1 << 25, DRAM)}


def study(sizes: list[int], flops: object, moved: object) -> Study:
    """Cases whose time is launching and 1.2 times what the work takes at its roof."""
    results = []
    for n in sizes:
        work, total = flops(n), moved(n)  # type: ignore[operator]
        held = {
            f"byte/{name}": total if total > size else 0.0 for name, (size, _) in LEVELS.items()
        }
        least = max(
            [work / PEAK, *(held[f"byte/{name}"] / rate for name, (_, rate) in LEVELS.items())]
        )
        case = Case(kernel="my.py:make", params={"n": n}, pass_name="forward", precision="")
        results.append(
            Result(
                case=case, status="done", samples_s=[LAUNCH_S + 1.2 * least] * 3, launches=1.0,
                amounts={"flop/fp32": work, **held},
            )
        )  # fmt: skip
    return judged_study(results, study_machine())


def names(found: Study) -> list[str]:
    rows = sorted(found.rows, key=lambda row: row.params["n"])
    return [regime.name for regime in regimes(rows, "n")]


def test_an_element_wise_function_goes_from_launch_over_caches_to_dram() -> None:
    # 1 kB to 1 GB, read and written.
    found = study([2**p for p in range(7, 28)], float, lambda n: 8.0 * n)
    assert names(found) == ["launch-bound", "cache-bound", "DRAM-bound"]
    rows = sorted(found.rows, key=lambda row: row.params["n"])
    first, second = crossovers(regimes(rows, "n"))
    assert first[0] < first[1] <= second[0] < second[1]
    # The crossover to DRAM is where the data leave the last cache.
    assert 8 * second[0] <= LEVELS["dram"][0] < 8 * second[1]


def test_a_matrix_product_goes_from_launch_to_compute() -> None:
    found = study([2**p for p in range(2, 12)], lambda n: 2.0 * n**3, lambda n: 12.0 * n * n)
    assert names(found) == ["launch-bound", "compute-bound"]


def test_regimes_are_findings_and_stand_on_the_chart_and_under_it() -> None:
    found = study([2**p for p in range(2, 12)], lambda n: 2.0 * n**3, lambda n: 12.0 * n * n)
    (finding,) = [f for f in found.report.findings if f.code == "study/regimes"]
    low, high = finding.evidence["crossovers"][0]
    words = f"launch-bound up to {low}, compute-bound from {high}"
    assert finding.title == f"my.py:make over n: {words}"
    (part,) = kernel_parts(found.rows, found.report.machine, None)
    assert words in part.tables[0].chart.title
    assert f"L{words[1:]}." in part.tables[0].note


def test_a_sweep_of_two_values_or_of_words_has_no_regimes() -> None:
    found = study([4, 2048], lambda n: 2.0 * n**3, lambda n: 12.0 * n * n)
    assert not [f for f in found.report.findings if f.code == "study/regimes"]
