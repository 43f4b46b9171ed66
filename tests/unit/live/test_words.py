"""What a live run says of its own noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.live.balance import Balance
from timeroof.live.contention import contention_note, waiting_share


@pytest.mark.parametrize(
    ("residual_s", "error_s", "expected"),
    [
        (-2.4e-3, 1e-3, "a clean step is 2.4 ms shorter (24.0% ± 10.0%) than a timed one"),
        (2.4e-3, None, "a clean step is 2.4 ms longer (24.0%) than a timed one"),
        (2.4e-3, 5e-3, "is 2.4 ms longer (24.0% ± 50.0%)"),
        (2.4e-3, 5.1e-3, "too few steps were seen, or too noisy ones"),
    ],
)
def test_the_residual_is_a_sentence(
    residual_s: float, error_s: float | None, expected: str
) -> None:
    line = Balance(10e-3, 12e-3, 1e-3, 0.0, residual_s, error_s).line
    assert line is not None
    assert expected in line


def test_no_clean_step_no_residual() -> None:
    assert Balance(None, 1.0, 0.0, 0.0, None, None).line is None


def test_waiting_for_a_cpu_is_summed_over_threads(tmp_path: Path) -> None:
    assert waiting_share(tmp_path) is None
    for number, text in enumerate(("900 50 3\n", "0 50 1\n", "gone\n", "")):
        folder = tmp_path / f"proc/self/task/{number}"
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    assert waiting_share(tmp_path) == pytest.approx(0.1)


def test_a_word_only_where_others_had_the_cpus() -> None:
    assert contention_note(0.049) is None
    assert "waited 10% of their time" in (contention_note(0.1) or "")
