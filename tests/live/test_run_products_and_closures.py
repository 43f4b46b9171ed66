"""Programs of a sixth outsider: batches of products, closures of optimizers, both gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.live_programs import MODEL, check_account, folder, report

__all__ = ["folder"]
torch = pytest.importorskip("torch")

BATCHES = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(64, 64)
    def forward(self, x):
        h = self.w(x)
        tiny = torch.bmm(h[:, :4, :4], h[:, :4, :4].mT).sum()
        single = torch.bmm(h[:1], h[:1].mT).sum()
        scores = torch.bmm(h, h.mT).softmax(-1)
        return torch.bmm(scores, h).mean() + 0 * (tiny + single).detach()
model = Attention()
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(24):
    optimizer.zero_grad()
    model(torch.randn(16, 48, 64)).backward()
    optimizer.step()
"""
EACH = 2 * 16 * 48 * 48 * 64


@pytest.mark.slow
def test_every_batch_of_products_is_on_its_ops_account(folder: Path) -> None:
    found = report(folder, BATCHES)
    batches = [
        k
        for k in found["kernels"]
        if k["op"] == "aten::bmm" and 48 in k["shape"][0] + k["shape"][1]
    ]
    assert {k["name"] for k in batches} == {"aten::bmm"}
    whole = [k for k in batches if k["shape"][0][0] == 16 and k["contraction_flops"]]
    assert sum(k["calls"] for k in whole if k["phase"] == "forward") == 2
    assert sum(k["calls"] for k in whole if k["phase"] == "backward") == 4
    assert all(k["contraction_flops"] == EACH * k["calls"] for k in whole)
    single = [k for k in batches if k["shape"] == [[1, 48, 64], [1, 64, 48]]]
    assert [k["contraction_flops"] for k in single] == [2 * 48 * 48 * 64]
    check_account(found)


CLOSURE = """
def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss
"""
UPDATES = {"aten::add_", "aten::_foreach_add_", "aten::dot"}


def _by_phase(found: dict[str, Any], phase: str | None) -> set[str]:
    return {k["op"] for k in found["kernels"] if k["phase"] == phase}


@pytest.mark.parametrize(
    ("optimizer", "marker"),
    [
        ("SGD(model.parameters(), lr=0.01)", ""),
        ("SGD(model.parameters(), lr=0.01)", "import timeroof; timeroof.step()"),
        # Calls its closure several times, and does more with every step.
        ("LBFGS(model.parameters(), lr=0.01, max_iter=3)", ""),
    ],
)
@pytest.mark.slow
def test_a_closures_ops_are_forward_and_backward(folder: Path, optimizer: str, marker: str) -> None:
    made = f"optimizer = torch.optim.{optimizer}\n"
    loop = f"for _ in range(20):\n    optimizer.step(closure)\n    {marker}\n"
    found = report(folder, MODEL + made + CLOSURE + loop)
    forward, backward = _by_phase(found, "forward"), _by_phase(found, "backward")
    own = _by_phase(found, "optimizer")
    computing = {"aten::addmm", "aten::_log_softmax", "aten::nll_loss_forward"}
    assert computing <= forward
    assert "aten::mm" in backward
    assert not (computing | {"aten::mm"}) & own
    assert own & UPDATES
    assert not UPDATES & forward
    assert not UPDATES & _by_phase(found, "other")
    modules = {k["module"] for k in found["kernels"] if k["op"] in ("aten::addmm", "aten::mm")}
    assert modules == {"model.0", "model.2"}
    check_account(found)


CONVOLUTION = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Conv2d(16, 32, 3, stride=2)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
x = torch.randn(16, 16, 32, 32, requires_grad=True)
for _ in range(24):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled={bf16}):
        loss = model(x).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GRADIENT, BIAS = 2 * 16 * 15 * 15 * 32 * 16 * 3 * 3, 16 * 32 * 15 * 15


@pytest.mark.parametrize("bf16", [False, True])
def test_both_gradients_of_a_convolution_have_as_many_products(folder: Path, bf16: bool) -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch is built without oneDNN")
    if bf16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("no bf16 in oneDNN on this CPU")
    found = report(folder, CONVOLUTION.replace("{bf16}", str(bf16)))
    both = [
        k for k in found["kernels"]
        if k["op"] == "aten::convolution_backward" and k["name"].startswith("onednn::convolution")
    ]  # fmt: skip
    assert len(both) == 2
    assert {k["contraction_flops"] for k in both} == {GRADIENT}
    data, weights = sorted(both, key=lambda k: k["name"].endswith("backward_weights"))
    assert sum(data["flops"].values()) == GRADIENT
    assert sum(weights["flops"].values()) == GRADIENT + BIAS
    if bf16:
        assert weights["flops"] == {"bf16": GRADIENT, "fp32": BIAS}
    check_account(found)
