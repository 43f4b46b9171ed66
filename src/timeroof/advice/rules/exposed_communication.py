"""TR107."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import LINK, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_percent, format_seconds
from timeroof.work.families.collectives import collective_kind


class ExposedCommunication(Rule):
    """Communication that no computation hides.

    **What.** Collectives during which their device runs no other kernel, and idle time whose cause
    is communication.

    **Why.** Gradients can be exchanged while the rest of the backward pass runs. What is
    exposed lengthens the step by its full time, on every rank.

    **Example.** DDP with one bucket that is ready only when the backward pass is over.

    **Seconds.** The exposed part of the collectives, and the idle seconds of that cause.

    **Silent** where the source has neither timestamps nor idle causes, and below 1 % of the run.
    """

    code = "TR107"
    name = "exposed-communication"
    title = "Communication is exposed"
    seen = removes = True
    idle_group = LINK
    actions = {
        **{
            f"torch expert-exchange{purpose}": "Overlap dispatch and combine of the experts with"
            " computation of another micro-batch. Send tokens in 8 bits, and only to the nodes"
            " that hold their experts."
            for purpose in ("", " training", " inference")
        },
        "torch send-recv training": "Overlap the exchange with dense layers; for embeddings"
        " TorchRec's TrainPipelineSparseDist does it. Exchange 16-bit numbers.",
        "torch all-gather training": "Overlap it with computation: FSDP with prefetching"
        " (forward_prefetch=True). Keep parameters gathered after forward where memory allows.",
        "torch inference": "Use fewer, larger collectives: a smaller tensor-parallel degree, or"
        " more tokens per step. Overlap them with computation of another micro-batch.",
        "torch": "Overlap it with computation: DDP with smaller buckets (bucket_cap_mb) and"
        " gradient_as_bucket_view=True. Accumulate gradients under no_sync(). Send gradients in"
        " bf16 (a DDP communication hook).",
        "any": "Start collectives as soon as their data are ready, on a stream of their own. Send"
        " fewer bytes, less often.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Exposed collectives and waits for the link."""
        waiting_s = idle_seconds(context, LINK)
        idle, outside = with_idle_gain(context, LINK)
        rows = context.rows.filter(pl.col("kind") == "collective").with_columns(
            pl.col("exclusive_s").fill_null(0.0).alias("busy_gain_s"),
            pl.lit(0.0).alias("idle_gain_s"),
            # Collectives beside one another wait for the same link: together they are exposed.
            pl.lit(None, pl.Float64).alias("most_gain_s"),
        )
        exposed_s = float(rows["busy_gain_s"].sum())
        if not exposed_s + waiting_s:
            return []
        time_s = float(rows["time_s"].sum())
        known = time_s > 0 and not rows["exclusive_s"].null_count()
        share = exposed_s / time_s if known else None
        evidence = {"exposed_s": exposed_s, "exposed_share": share, "waiting_s": waiting_s}
        why = _why(context, time_s, share, waiting_s)
        why += places(rows, by="busy_gain_s", lead="Longest exposed")
        both = pl.concat([rows, idle], how="diagonal") if waiting_s else rows
        title = f"Communication is exposed for {context.of_run(exposed_s + waiting_s)}"
        action = context.action(_by_collective(self.actions, rows), rows)
        return self.claim(
            context, both, why, evidence, title=title, action=action, outside_s=outside
        )


# Tokens on their way to and from the experts of other ranks (DeepEP, MORI, TensorRT-LLM).
_OF_EXPERTS = r"(?i)deep_?ep|::ep::|expert|\bmoe|Ep(?:Dispatch|Combine)|moea2a"
# Exchanges between all ranks are told by any of their names.
_SAME = {
    "all-to-all": "send-recv",
    "alltoall": "send-recv",
    "reduce-scatter": "all-gather",
    "reducescatter": "all-gather",
    "allgather": "all-gather",
}


def _by_collective(actions: Mapping[str, str], rows: pl.DataFrame) -> dict[str, str]:
    """The advice for the collective that is exposed longest, and what holds for all."""
    by_kind = rows.group_by("algorithm", "op").agg(pl.col("busy_gain_s", "time_s").sum())
    largest = by_kind.sort("busy_gain_s", "time_s", descending=True)
    main = next((_told(*row) for row in largest.select("algorithm", "op").iter_rows()), None)
    named = pl.concat_str("name", "op", separator=" ", ignore_nulls=True).str.contains(_OF_EXPERTS)
    if float(rows.filter(named)["busy_gain_s"].sum()) > float(rows["busy_gain_s"].sum()) / 2:
        main = "expert-exchange"
    found: dict[str, str] = {}
    for key, text in actions.items():
        words = key.split()
        special = next((word for word in words if "-" in word), None)
        if special in (None, main):
            plain = " ".join(word for word in words if word != special)
            found.setdefault(plain, text)
    return found


def _told(algorithm: str | None, op: str | None) -> str | None:
    """The collective by its algorithm, or by its op where nobody names one.

    >>> _told("all-to-all", None), _told(None, "c10d::_reduce_scatter_base_")
    ('send-recv', 'all-gather')
    """
    kind = algorithm or collective_kind(op or "")
    return _SAME.get(kind, kind) if kind else None


def _why(context: Context, time_s: float, share: float | None, waiting_s: float) -> str:
    """Collectives and waiting, whichever there is; how much is exposed only where that is known."""
    sentences = []
    if time_s:
        exposed = "" if share is None else f"; {format_percent(share)} of that is exposed"
        sentences.append(f"Collectives take {format_seconds(time_s)}{exposed}.")
    if waiting_s:
        who = "program" if context.device_kind == "cpu" else context.device_noun
        more = "another " if time_s else ""
        sentences.append(f"The {who} waits {more}{format_seconds(waiting_s)} for communication.")
    return " ".join(sentences)
