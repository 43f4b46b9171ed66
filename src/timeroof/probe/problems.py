"""The probe's own error: a kernel that did not do its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from timeroof.core.errors import TimeroofError


class ProbeError(TimeroofError):
    """A measurement that cannot be right; its value is reported and never used."""


def wrong_result(kernel: str) -> ProbeError:
    """The error for a kernel whose result shows that it did not do its work."""
    return ProbeError(
        f"the {kernel} kernel gave a wrong result: its time is not used",
        advice="please report this with the output of `timeroof machine --json -`",
    )


@contextmanager
def recorded(errors: list[str]) -> Iterator[None]:
    """Note a probe error, once, and go on: one bad kernel must not cost the other figures."""
    try:
        yield
    except ProbeError as error:
        if error.message not in errors:
            errors.append(error.message)
