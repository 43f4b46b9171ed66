"""The table of work by definition and work that ran: every ratio is 1 or has a named cause."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "framework_counts.py"


def table() -> Any:
    import sys

    spec = importlib.util.spec_from_file_location("framework_counts", FILE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


@pytest.mark.slow
def test_functions_of_jax_execute_what_their_jaxpr_asks_for_but_for_depthwise_gradients() -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    lines = [line for line in table().own_lines("jax") if line.variant == "compiled"]
    assert all(line.is_explained for line in lines), lines
    ratios = {line.work: line.ratio for line in lines}
    other = {work: ratio for work, ratio in ratios.items() if ratio != 1}
    assert other == {
        "depthwise convolution backward": 16.5,
        "GPT step, scan and remat forward": pytest.approx(13 / 14),
    }
    for line in lines:
        same = line.asked == line.counted
        assert same == (line.work != "depthwise convolution backward"), line
    # XLA counts a loop's body once: three blocks look like one, forward and backward.
    gpt = next(line for line in lines if line.work == "GPT step, scan forward")
    assert gpt.other_tool < 0.5 * gpt.counted


@pytest.mark.slow
def test_layers_of_torch_say_why_they_execute_more() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    made = table()
    made.VARIANTS["torch"] = ("eager",)
    lines = list(made.paper_lines("torch", small=True))
    assert all(line.is_explained for line in lines), lines
    assert {line.ratio for line in lines if line.work.startswith("conv2d")} == {1}
    fused = next(x for x in lines if (x.variant, x.work) == ("eager", "lstm backward-input"))
    assert fused.ratio == 2
    assert fused.cause.startswith("the layer's backward pass computes")
