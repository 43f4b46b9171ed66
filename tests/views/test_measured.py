"""The table of a measured machine."""

from __future__ import annotations

import pytest

from tests.conftest import make_machine
from timeroof.views.machine import print_measured


def test_the_clock_behind_theoretical_figures_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_measured(make_machine(), {1: 3.65e9, 2: 3.5e9})
    told = " ".join(capsys.readouterr().out.split())
    assert "theoretical figures: 3.65 GHz on 1 core, 3.50 GHz on 2 cores" in told
    print_measured(make_machine())
    assert "GHz" not in capsys.readouterr().out
