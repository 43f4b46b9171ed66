"""Phases of a training step, as people name the folders of their runs."""

from __future__ import annotations

import re

_PHASES = {
    "forward": ("fw", "fwd", "forward"),
    "backward": ("bw", "bwd", "backward"),
    "optimizer": ("opt", "optim", "optimizer", "optimiser"),
    "data": ("dataloader", "dataloading"),
}
_BY_WORD = {word: phase for phase, words in _PHASES.items() for word in words}


def phase_of_folder(folder: str) -> str | None:
    """The phase that a folder's name says, None where it says none or several.

    >>> phase_of_folder("run/fw"), phase_of_folder("PT-fp32-O0-Adam-bw-732898")
    ('forward', 'backward')
    >>> phase_of_folder("fwbw") is None
    True
    """
    last = folder.rstrip("/").rsplit("/", 1)[-1].lower()
    phases = {_BY_WORD[w] for w in re.split(r"[^a-z]+", last) if w in _BY_WORD}
    return phases.pop() if len(phases) == 1 else None
