"""PyTorch's instruments. Nothing of torch is imported before `make` is called."""

from __future__ import annotations

from timeroof_recorder.instruments import Instruments


def make() -> Instruments:
    """The instruments of the torch that this process has imported."""
    from timeroof_recorder.torch.session_instruments import TorchInstruments

    return TorchInstruments()
