"""Tables for other programs: the judged rows as CSV."""

from __future__ import annotations

import io

import polars as pl

from timeroof.core.profile import Profile
from timeroof.core.verdict import Verdicts


def judged_table(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """One row per kernel with everything known of it, lists left out."""
    return pl.concat([profile.kernels.drop("samples"), verdicts.table.drop("id")], how="horizontal")


def csv_bytes(profile: Profile, verdicts: Verdicts) -> bytes:
    """The judged rows as CSV; columns that say nothing are left out."""
    table = judged_table(profile, verdicts)
    said = [c for c in table.columns if table[c].null_count() < table.height]
    buffer = io.BytesIO()
    table.select(said).write_csv(buffer)
    return buffer.getvalue()
