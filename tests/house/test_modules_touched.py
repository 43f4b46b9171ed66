"""How many of our modules a reader meets on the two main walks: `read` and `run` to a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules_touched import touched_by

ROOT = Path(__file__).resolve().parents[2]
# What the walks take today; more should be a decision, not an accident. They cannot fall far: the
# files on them have 18,700 and 23,300 lines, which in files of 400 would be 47 and 58.
MOST_OF_READ = 59
MOST_OF_RUN = 76
PROGRAM = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


def test_read_to_page_runs_few_modules() -> None:
    code, modules = touched_by("read", [str(ROOT / "examples" / "trace.json.gz")])
    assert code == 0
    assert "timeroof.views.page.page" in modules
    assert len(modules) <= MOST_OF_READ, modules


@pytest.mark.slow
def test_run_to_page_runs_few_modules(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    code, modules = touched_by("run", ["--machine", "v100-paper", str(script)])
    assert code == 0
    assert "timeroof.views.page.page" in modules
    assert len(modules) <= MOST_OF_RUN, modules
