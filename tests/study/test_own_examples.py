"""The examples of examples/study, each in a worker, as the command runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.study.case import Plan, Result
from timeroof.study.own import OwnChoices, own_cases, reference, swept_values
from timeroof.study.run import Worker

EXAMPLES = Path(__file__).parents[2] / "examples" / "study"
FAST = Plan(warmup_s=0.01, budget_s=0.02, least=2, sample_s=1e-6, one_thread_beside_others=False)


def swept(file: str, passes: list[str], **values: list[object]) -> list[Result]:
    own = reference(f"{EXAMPLES / file}:make")
    worker = Worker(None, own=own)
    try:
        hello = worker.start()
        given = swept_values(own, hello, values, typed=False)
        cases = own_cases(own, hello, given, OwnChoices(passes=passes, threads=[1]))
        found = list(worker.measured(cases, FAST))
    finally:
        worker.stop()
    assert [r.status for r in found] == ["done"] * len(found), [r.error for r in found]
    assert not any("leaks" in r.labels for r in found)
    return found


@pytest.mark.slow
def test_the_torch_module_does_twice_the_products_for_twice_the_batch() -> None:
    pytest.importorskip("torch")
    found = swept("torch_block.py", ["forward", "backward"], batch=[1, 2], sequence=[16])
    one, two, back, _ = (r.contraction_flops or 0.0 for r in found)
    width, tokens = 128, 16
    # Projections in and out, the feed-forward layers; scores and their sums.
    assert one == 2 * tokens * width * width * (4 + 8) + 2 * 2 * tokens * tokens * width
    assert two == 2 * one
    assert back >= 2 * one


@pytest.mark.slow
def test_the_jax_function_does_four_times_the_products_for_twice_the_sequence() -> None:
    pytest.importorskip("jax")
    found = swept("jax_attention.py", ["forward"], sequence=[16, 32])
    one, two = (r.contraction_flops for r in found)
    assert one == 2 * 2 * 2 * 4 * 16 * 16 * 32
    assert two == 4 * one


@pytest.mark.slow
def test_the_keras_layer_does_twice_the_products_for_twice_the_filters() -> None:
    pytest.importorskip("tensorflow")
    found = swept("keras_layer.py", ["forward", "backward"], filters=[4, 8], size=[10])
    one, two, back, _ = (r.contraction_flops or 0.0 for r in found)
    # 3×3 taps over 16 channels, 8×8 results of each of 4 images.
    assert one == 2 * 4 * 8 * 8 * 4 * 9 * 16
    assert two == 2 * one
    assert back == 2 * one
