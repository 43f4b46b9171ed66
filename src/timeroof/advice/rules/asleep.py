"""TR108."""

from __future__ import annotations

from timeroof.advice.context import ASLEEP, Context, idle_seconds, with_idle_gain
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds


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
