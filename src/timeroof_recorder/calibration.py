"""What recording one event costs: rounds of small programs, with and without the profiler.

Only the rounds are taken here; what they say together is worked out when the record is read.
"""

from timeroof_recorder.kept import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from timeroof_recorder.instruments import Instruments
    from timeroof_recorder.log import Log

CLOSE, FAR = "close", "far"
# Events of one turn of the small programs, and the most turns that a round may have.
TURN_EVENTS = 800
MOST_TURNS = 50
# Rounds of the second program at the end, where nobody knows it of this machine yet.
ROUNDS_AT_END = 12


class Rounds:
    """Turns of one small program, each round once without the profiler and once with it, in the
    thread's own time, which a busy machine does not change much."""

    def __init__(self, which: str, run: "Callable[[], None]", instruments: "Instruments") -> None:
        self._which, self._run, self._instruments = which, run, instruments
        self._bare: tuple[int, int, int] | None = None
        self.taken = 0

    def bare(self, turns: int) -> None:
        """The half of a round without the profiler."""
        self._bare = (*self._times(turns), turns)

    def watched(self, turns: int, log: "Log | None") -> None:
        """The other half; a round without its first, or without a log, is forgotten."""
        if not self._instruments.start("timed"):
            return
        try:
            own_ns, wall_ns = self._times(turns)
        finally:
            events = self._instruments.stop("timed")
        if events is not None and len(events) and self._bare is not None and log is not None:
            length_ns = events.finish_ns - events.begin_ns
            log.write(
                "round", self._which, self._bare, (own_ns, wall_ns, turns), len(events), length_ns
            )
            self.taken += 1
        self._bare = None

    def _times(self, turns: int) -> tuple[int, int]:
        own_time_ns = self._instruments.own_time_ns
        wall, own = time.perf_counter_ns(), own_time_ns()
        for _ in range(turns):
            self._run()
        return max(1, own_time_ns() - own), time.perf_counter_ns() - wall


class Calibration:
    """Rounds beside the program's own steps, and at its end.

    The first program has as many events as a step of the program, as their records leave the
    caches, too. Its round without the profiler comes right before a timed step, that with it right
    after: both find the caches as the program's ops do, full of something else.
    """

    def __init__(self, instruments: "Instruments", log: "Log", *, is_known: bool) -> None:
        self._instruments, self._log, self._is_known = instruments, log, is_known
        self._made: tuple[Rounds, Rounds] | None = None
        self._turns = 1

    @property
    def _both(self) -> tuple[Rounds, Rounds] | None:
        """Made when they are needed first: a process that takes no step runs no op of ours."""
        if self._made is None:
            programs = self._instruments.small_programs()
            if programs is not None:
                close, far = programs
                self._made = (
                    Rounds(CLOSE, close, self._instruments), Rounds(FAR, far, self._instruments)
                )  # fmt: skip
        return self._made

    def before_step(self) -> None:
        """A round without the profiler, before a timed step."""
        if self._both is not None and not self._instruments.is_foreign():
            self._both[0].bare(self._turns)

    def after_step(self, events: int) -> None:
        """A round with the profiler, after a timed step with so many events (0: to warm it up)."""
        if self._both is not None and not self._instruments.is_foreign():
            self._both[0].watched(self._turns, self._log)
        self._turns = max(1, min(MOST_TURNS, round(events / TURN_EVENTS)))

    def at_end(self) -> None:
        """Rounds of the second program, and of the first where steps gave too few."""
        if self._is_known or self._instruments.is_foreign() or self._both is None:
            return
        for rounds in self._both:
            if rounds.taken < ROUNDS_AT_END // 3:
                rounds.bare(1)
                rounds.watched(1, None)  # the first uses are slow
                for _ in range(ROUNDS_AT_END):
                    rounds.bare(1)
                    rounds.watched(1, self._log)
