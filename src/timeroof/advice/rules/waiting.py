"""Seconds in which a device, a program or a rank waits."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import (
    ASLEEP,
    DATA,
    HOST,
    LINK,
    SYNC,
    Context,
    idle_seconds,
    with_idle_gain,
)
from timeroof.advice.rule import MIN_SHARE, Claim, Rule
from timeroof.core.units import format_percent, format_seconds

MIN_IDLE_SHARE = 0.05


class HostBound(Rule):
    """A device that waits because the host issues work too late; on a CPU, time between ops.

    **What.** Idle time whose cause is the host (launch-starved, python, autograd, dispatch,
    runtime), 5 % of the run or more.

    **Why.** The device could work, but nothing is in its queue: Python, the framework's
    dispatch and autograd take longer than the kernels. Faster kernels only lengthen the wait.
    A CPU is its own host: while it runs Python and the framework, it runs no op.

    **Example.** A model of many small layers in eager mode on a large GPU.

    **Seconds.** The idle seconds of that cause.

    **Silent** where the source has no timestamps, so that idle is not known.
    """

    code = "TR104"
    name = "host-bound"
    title = "The device waits for the host"
    cpu_title = "Python and framework overhead between ops"
    actions = {
        "torch gpu": "Take the host out of the loop: torch.compile, CUDA graphs"
        " (mode='reduce-overhead'), a larger batch; profile the Python side (timeroof run,"
        " py-spy).",
        "torch cpu": "Spend less time between ops: torch.compile, fewer Python loops and small"
        " ops, hooks and logging out of the step.",
        "tensorflow": "Wrap the step in tf.function, run several steps per call"
        " (steps_per_execution).",
        "jax": "Put the whole step under jax.jit and donate its buffers.",
        "any": "Issue work earlier and in larger pieces.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Idle seconds that the host causes."""
        seconds = idle_seconds(context, HOST)
        if seconds < MIN_IDLE_SHARE * context.total_s:
            return []
        rows, outside = with_idle_gain(context, HOST)
        on_cpu = context.device_kind == "cpu"
        share = format_percent(seconds / context.total_s)
        where = "kernels while the host prepares the next one"
        where = "ops, in Python and the framework" if on_cpu else where
        why = f"{format_seconds(seconds)} ({share}) pass between {where}."
        title = self.cpu_title if on_cpu else self.title
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)


MIN_DATA_SHARE = 0.1


class SlowData(Rule):
    """A step that waits for its input.

    **What.** Idle time whose cause is data loading, and rows of the phase `data`, together a
    tenth of the run or more.

    **Why.** Reading, decoding and augmenting can go on while the device computes, in other
    processes. What shows up in the step is what does not overlap.

    **Example.** `DataLoader(dataset, num_workers=0)`: every batch is made between two steps.

    **Seconds.** All of it: overlapped loading costs the step nothing.

    **Silent** where neither idle causes nor phases are known.
    """

    code = "TR105"
    name = "slow-data"
    title = "The step waits for data"
    removes = True
    actions = {
        "torch": "Load in the background: DataLoader(num_workers=4 or more,"
        " persistent_workers=True, prefetch_factor=2 or more, pin_memory=True for a GPU);"
        " decode and augment less per sample, or cache what does not change.",
        "tensorflow": "dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch("
        "tf.data.AUTOTUNE), cache() what does not change.",
        "any": "Prepare the next batch while this one is computed.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Waiting for data, and making it in line."""
        waiting_s = idle_seconds(context, DATA)
        busy = context.rows.filter(pl.col("phase") == "data").with_columns(
            pl.col("time_s").alias("busy_gain_s"), pl.lit(0.0).alias("idle_gain_s")
        )
        busy_s = float(busy["time_s"].sum())
        if waiting_s + busy_s < MIN_DATA_SHARE * context.total_s:
            return []
        idle, outside = with_idle_gain(context, DATA)
        rows = _together(busy, idle)
        parts = {"waiting for input": waiting_s, "preparing input": busy_s}
        words = " and ".join(f"{format_seconds(s)} {what}" for what, s in parts.items() if s)
        share = format_percent((waiting_s + busy_s) / context.total_s)
        why = f"The step spends {words}, {share} of its time."
        evidence = {"waiting_s": waiting_s, "busy_s": busy_s}
        return self.claim(context, rows, why, evidence, outside_s=outside)


def _together(busy: pl.DataFrame, idle: pl.DataFrame) -> pl.DataFrame:
    kept, gains = (
        ["time_s", "most_gain_s", "time_spread", "samples"],
        ["busy_gain_s", "idle_gain_s"],
    )
    both = pl.concat([table.select("id", *kept, *gains) for table in (busy, idle)])
    return both.group_by("id", maintain_order=True).agg(pl.col(kept).first(), pl.col(gains).sum())


class HostWaits(Rule):
    """A host that waits for the device, and so leaves it without work afterwards.

    **What.** Idle time of the device that follows a synchronisation.

    **Why.** After the host has waited, the queue is empty: the device idles until the host has
    issued enough work again.

    **Example.** `loss.item()`, `print(loss)`, `tensor.cpu()`, `if (x > 0).any():` in every
    step.

    **Seconds.** The idle seconds of that cause.

    **Silent** where the source has no timestamps, and below 1 % of the run.
    """

    code = "TR106"
    name = "host-waits"
    title = "Synchronisation empties the device's queue"
    actions = {
        "torch": "Keep values on the device (.detach() sums, logging every n steps), copy with"
        " non_blocking=True from pinned memory, avoid branches on device values;"
        " torch.cuda.set_sync_debug_mode('warn') names the lines.",
        "tensorflow": "Do not fetch values every step; log inside tf.function with tf.summary.",
        "jax": "Do not call block_until_ready or float(x) inside the loop.",
        "any": "Read results back rarely and late.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Idle seconds after synchronisation."""
        seconds = idle_seconds(context, SYNC)
        if not seconds:
            return []
        rows, outside = with_idle_gain(context, SYNC)
        why = (
            f"The device idles {format_seconds(seconds)}"
            f" ({format_percent(seconds / context.total_s)}) after the host has waited for it."
        )
        return self.claim(context, rows, why, {"idle_s": seconds}, outside_s=outside)


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
    title = "Communication is not overlapped"
    seen = removes = True
    actions = {
        "torch": "Overlap it: DDP with smaller buckets (bucket_cap_mb) and"
        " gradient_as_bucket_view=True, FSDP with prefetching; accumulate gradients under"
        " no_sync(); compress them (bf16 hooks).",
        "any": "Start collectives as soon as their data are ready, on their own stream; send fewer"
        " bytes, less often.",
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
        both = pl.concat([rows, idle], how="diagonal") if waiting_s else rows
        return self.claim(context, both, why, evidence, outside_s=outside)


def _why(context: Context, time_s: float, share: float | None, waiting_s: float) -> str:
    """Collectives and waiting, whichever there is; how much is exposed only where that is known."""
    sentences = []
    if time_s:
        exposed = "" if share is None else f", {format_percent(share)} of it exposed"
        sentences.append(f"Collectives take {format_seconds(time_s)}{exposed}.")
    if waiting_s:
        who = "program" if context.device_kind == "cpu" else "device"
        more = "another " if time_s else ""
        sentences.append(f"The {who} waits {more}{format_seconds(waiting_s)} for communication.")
    return " ".join(sentences)


class Asleep(Rule):
    """A step in which the program does nothing at all.

    **What.** Time between ops in which the thread that steps neither runs nor waits for a CPU,
    in steps in which it gave its CPU up itself (voluntary context switches).

    **Why.** Reading a file, asking a server, waiting for a lock or a child, `time.sleep`: the
    machine could work on the step meanwhile.

    **Example.** `batch = numpy.load(path)` or a request to a server in the training loop.

    **Seconds.** All of it: what is fetched ahead, in another thread or process, costs the step
    nothing. What a data loader waits for is TR105's.

    **Silent** where the source does not tell sleeping from running (recorded traces), below 2 %
    of a step, and where the thread was only stopped: by other programs, by the host of a virtual
    machine or by a container's CPU quota.
    """

    code = "TR108"
    name = "asleep"
    title = "The program sleeps during its steps"
    actions = {
        "torch": "Fetch the next batch ahead: a DataLoader with num_workers, a thread and a queue;"
        " take sleeps, locks and requests out of the loop.",
        "any": "Fetch what the next step needs while this one runs; take sleeps and locks out of"
        " the loop.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Seconds asleep."""
        seconds = idle_seconds(context, ASLEEP)
        if not seconds:
            return []
        rows, outside = with_idle_gain(context, ASLEEP)
        why = (
            f"For {format_seconds(seconds)} ({format_percent(seconds / context.total_s)}) of a step"
            " no op runs and the program does not ask for a CPU: it sleeps, or waits for a file,"
            " the network, a lock or another process."
        )
        return self.claim(context, rows, why, {"idle_s": seconds}, outside_s=outside)


MIN_IMBALANCE = 0.05


class UnbalancedRanks(Rule):
    """Ranks that have more to do than others, for whom the others wait.

    **What.** Computing time by rank, collectives left out, where the busiest rank has 5 % more
    than the mean.

    **Why.** Every collective ends when the last rank arrives. The others' waiting looks like
    slow communication, and no faster network helps.

    **Example.** Sequences of different length distributed as they come, experts with different
    load, one node with a lower clock.

    **Seconds.** The busiest rank's time less the mean: what perfect balance would give.

    **Silent** with one rank.
    """

    code = "TR401"
    name = "unbalanced-ranks"
    title = "One rank has more to do than the others"
    actions = {
        "any": "Balance the work: bucket samples by length, shard by cost instead of count,"
        " and check the slow rank's clock, temperature and data path."
    }

    def claims(self, context: Context) -> list[Claim]:
        """The busiest rank against the mean."""
        work = context.rows.filter(pl.col("rank").is_not_null(), pl.col("kind") != "collective")
        # Rows are a mean rank's: its share of them.
        count = context.rows["rank"].drop_nulls().n_unique()
        ranks = (
            work.group_by("rank")
            .agg(pl.col("time_s").sum() * count)
            .sort("time_s", descending=True)
        )
        if ranks.height < 2:
            return []
        most_s, mean_s = float(ranks["time_s"].max() or 0.0), float(ranks["time_s"].mean() or 0.0)  # type: ignore[arg-type]
        if most_s < (1 + MIN_IMBALANCE) * mean_s or most_s - mean_s < MIN_SHARE * context.total_s:
            return []
        slowest = ranks["rank"][0]
        rows = work.filter(pl.col("rank") == slowest)
        why = (
            f"Rank {slowest} computes {format_seconds(most_s)}, the mean of {ranks.height} ranks is"
            f" {format_seconds(mean_s)}: {format_percent(most_s / mean_s - 1)} more."
        )
        evidence = {"rank": slowest, "most_s": most_s, "mean_s": mean_s, "ranks": ranks.height}
        gains = rows.with_columns(pl.lit(0.0).alias("busy_gain_s"))
        return self.claim(context, gains, why, evidence, outside_s={"imbalance": most_s - mean_s})
