"""Measure this machine quickly and keep the result: `python -m timeroof.probe.measure_here`."""

from __future__ import annotations

from timeroof.probe.measure import load_or_measure

if __name__ == "__main__":
    load_or_measure(quick=True)
