"""Kineto and other Chrome traces: PyTorch (NVIDIA, AMD, CPU), JAX, and any complete events."""

from __future__ import annotations

from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Input
from timeroof.read.text import encoding_of


class Kineto:
    """Traces that torch.profiler, XLA and Chrome's tracing write as JSON."""

    name = "kineto"
    title = "PyTorch Kineto and other Chrome traces"

    def sniff(self, found: Input) -> bool:
        """An object with trace events, or a list of objects with a phase letter."""
        if len(found.entries) != 1:
            return False
        head = found.only.head
        encoding, skip = encoding_of(head)
        head = head[skip:]
        if encoding != "utf-8":
            head = head.decode(encoding, "replace").encode("utf-8", "replace")
        head = head.lstrip()
        if head[:1] == b"[":
            return b'"ph"' in head
        kineto = b'"deviceProperties"' in head and b'"schemaVersion"' in head
        return head[:1] == b"{" and (b'"traceEvents"' in head or kineto)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of the trace."""
        from timeroof.read.torch.profile import read_trace

        return read_trace(found, options)


FORMAT = Kineto()
