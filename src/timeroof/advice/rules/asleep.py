"""TR108."""

from __future__ import annotations

from timeroof.advice.context import Context
from timeroof.advice.rule import ASLEEP, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_seconds


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
    idle_group = ASLEEP
    actions = {
        "torch": "Fetch the next batch ahead with DataLoader(num_workers=2) or a thread and a"
        " queue. Move sleeps, locks and requests out of the loop.",
        "any": "Fetch what the next step needs while this one runs. Move sleeps and locks out of"
        " the loop.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Seconds asleep."""
        seconds = idle_seconds(context, ASLEEP)
        if not seconds:
            return []
        rows, outside = with_idle_gain(context, ASLEEP)
        why = (
            f"No op runs for {format_seconds(seconds)} ({context.share(seconds)}) of a step. The"
            " program sleeps or waits for a file, the network, a lock or another process."
        )
        title = f"The program sleeps for {context.of_run(seconds)}"
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)
