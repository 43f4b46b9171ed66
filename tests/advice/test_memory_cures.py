"""What TR206 advises does what it says: freed memory stays in the process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from timeroof.advice import rule_of
from timeroof.advice.rules.fresh_memory import KEEP_MEMORY

pytest.importorskip("torch")

PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Page faults of the last of five large results.
PROGRAM = """
import resource, torch
torch.set_num_threads(1)
x = torch.randn(16 << 20)
for _ in range(5):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = x + 1
    del y
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**settings: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout)


def test_the_advice_names_only_what_was_measured_to_help() -> None:
    actions = rule_of("TR206").actions
    assert KEEP_MEMORY in actions["torch"]
    assert not any("jemalloc" in a or "tcmalloc" in a for a in actions.values())


def test_the_advised_settings_keep_memory() -> None:
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < (2, 35):
        pytest.skip("not glibc 2.35 or later")
    if not PAGES.exists() or "[never]" in PAGES.read_text():
        pytest.skip("huge pages are switched off")
    settings = dict(word.split("=", 1) for word in KEEP_MEMORY.split())
    plain = faults()
    if plain < 1000:
        pytest.skip("memory is kept here already")
    assert faults(**settings) < 0.1 * plain
