"""Which pass a step gets: warm-up, then timed, described and clean ones in turn, for every kind."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

# After the first window of a long run, short ones at steps that lie ever farther apart.
LATER_WINDOW = 5
MOST_TIMED = 48
MOST_REPEATS = 3
# One pass in so many shows primitives, so that their shares do not hang on a single step.
PRIMITIVES_EVERY = 8
MOST_PRIMITIVES_PLACE = 24
# From so many steps on, one is described a second time: sizes may change from step to step.
DESCRIBED_TWICE = 8
# Where sizes change, so many more are, one after every second timed step.
DESCRIBED_MORE = 3


class Pass:
    """What is done to a step."""

    # Nothing that can be used: it began before anybody looked, or its pass was given up.
    UNSEEN = "unseen"
    WARMUP = "warmup"
    CLEAN = "clean"
    TIMED = "timed"
    DESCRIBED = "described"
    PRIMITIVES = "primitives"
    # In place of primitives where the program uses a device of its own.
    DEVICE = "device"
    # Without instruments, but caches and memory are still as those of the last step left them.
    SETTLING = "settling"
    # Without instruments like a clean one, after all that was to be looked at.
    FREE = "free"
    # The same where work runs on after a call: nobody waits for it, so that its time is not known.
    UNSYNCED = "unsynced"


UNTOUCHED = (Pass.CLEAN, Pass.FREE)
# Without instruments, but slower than usual perhaps: one stands in where no better one was seen.
UNSETTLED = (Pass.WARMUP, Pass.SETTLING)
INSTRUMENTED = (Pass.TIMED, Pass.DESCRIBED, Pass.PRIMITIVES, Pass.DEVICE)
# Passes that have a framework's profiler on.
RECORDING = (Pass.TIMED, Pass.PRIMITIVES, Pass.DEVICE)


class Schedule:
    """Hands out passes step by step.

    The most telling passes come first, as nobody knows how many steps a program has: ops
    with their times, then their shapes, then settled steps without instruments. Until one of
    those is seen, the last step of the warm-up stands in for it, so that it need not come
    before the timed one: a program of three steps has times, one of four shapes as well, and
    from six on (`warmup` is one less than the steps that pass first) nothing stands in.
    Between an instrumented step and a clean one, or one with the same instruments, lies one
    in which caches and memory settle; it is none of the `steps`. The end of every window is
    described once more, to see whether sizes are still the same.

    >>> plan = Schedule(warmup=1, steps=8)
    >>> " ".join(str(plan.next())[0] for _ in range(15))
    'w t d s c p s c t s c d s f f'
    """

    HEAD = (Pass.TIMED, Pass.DESCRIBED, Pass.CLEAN, Pass.PRIMITIVES)

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup, self.steps = warmup, steps
        self._step = -1
        self._timed = 0
        self._next_window = 2 * (warmup + steps)
        self._last = self._before = Pass.WARMUP
        self._repeats = 0
        self._repeat: str | None = None
        # How many more steps are to be described: None until sizes are seen to change.
        self._more: int | None = None

    def describe_more(self) -> None:
        """Sizes change from step to step: describe some more, each beside a timed one."""
        if self._more is None:
            self._more = DESCRIBED_MORE

    def next(self) -> str:
        """The pass of the next step."""
        self._before = self._last
        if self._repeat is not None:
            self._last, self._repeat = self._repeat, None
            return self._last
        chosen = self._pass(self._step + 1)
        if self._last == Pass.TIMED and self._more and self._timed % 2 == 0:
            self._more -= 1
            self._last = Pass.DESCRIBED
            return self._last
        if disturbs(self._last, chosen):
            self._last = Pass.SETTLING
            return self._last
        self._step += 1
        self._timed += chosen == Pass.TIMED
        self._last = chosen
        return chosen

    def repeat(self, lost: str) -> None:
        """A pass could not be completed: do it again at the next step, a few times at most."""
        self._repeats += 1
        if self._repeats <= MOST_REPEATS:
            self._repeat = lost

    def instead(self, chosen: str, wish: str) -> str:
        """A step gets the pass that its kind lacks, as far as it can; the one that was chosen for
        it comes with the next step."""
        if disturbs(self._before, wish):
            wish = Pass.SETTLING
        if chosen in INSTRUMENTED and chosen != wish and not disturbs(wish, chosen):
            self._repeat = chosen
        self._last = wish
        return wish

    def _pass(self, step: int) -> str:
        if step < self.warmup:
            return Pass.WARMUP
        place = step - self.warmup
        if place < self.steps:
            if place < len(self.HEAD):
                return self.HEAD[place]
            if _shows_primitives(place):
                return Pass.PRIMITIVES
            if self.steps >= DESCRIBED_TWICE and place == self._last_described():
                return Pass.DESCRIBED
            return Pass.CLEAN if place % 2 == 0 else Pass.TIMED
        return self._later(step)

    def _last_described(self) -> int:
        last = self.steps - 1
        return last - 1 if _shows_primitives(last) else last

    def _later(self, step: int) -> str:
        if step < self._next_window or self._timed >= MOST_TIMED:
            return Pass.FREE
        place = step - self._next_window
        if place + 1 == LATER_WINDOW:
            self._next_window *= 2
            return Pass.DESCRIBED
        return Pass.CLEAN if place % 2 == 0 else Pass.TIMED


def disturbs(before: str, chosen: str) -> bool:
    """Whether a pass cannot come right after another. The program's annotations may be open over
    the end of a step. One that the profiler saw begin and another run of it sees end is written
    into memory that torch has freed; whoever describes loses a parent from the stack by it."""
    if chosen in UNTOUCHED:
        return before in INSTRUMENTED
    if chosen in RECORDING:
        return before in RECORDING
    return chosen == before == Pass.DESCRIBED


def _shows_primitives(place: int) -> bool:
    return place % PRIMITIVES_EVERY == 3 and place < MOST_PRIMITIVES_PLACE


# Kinds of steps: those that the plan above missed get their passes from steps it leaves alone, and
# from any where they come regularly.


# A kind that comes rarely is timed so often, and described once.
WANTED_TIMED = 3
# A kind with a smaller share of the time is not waited for.
LEAST_SHARE = 0.02
# Steps tried for kinds whose turn nobody can foresee, one in so many of those left alone.
MOST_TRIES, TRY_EVERY = 60, 3
MOST_KINDS = 12


class KindSeen:
    """What is known of one kind of steps while the program runs."""

    def __init__(self) -> None:
        self.count = self.total_ns = 0
        self.timed = self.described = self.untouched = 0
        self.last = self.gap = 0

    def came(self, number: int, pass_: str, duration_ns: int) -> None:
        """A step of this kind ended."""
        self.gap, self.last = number - self.last if self.count else 0, number
        self.count += 1
        # The first steps load and compile: their time says nothing of what a kind is worth.
        self.total_ns += duration_ns if pass_ not in (Pass.UNSEEN, Pass.WARMUP) else 0
        self.timed += pass_ == Pass.TIMED
        self.described += pass_ == Pass.DESCRIBED
        self.untouched += pass_ in UNTOUCHED

    def lacks(self, offers: "Collection[str]") -> str | None:
        """The pass that this kind needs most, of those that its framework has."""
        if not self.timed:
            return Pass.TIMED
        if not self.described and Pass.DESCRIBED in offers:
            return Pass.DESCRIBED
        if not self.untouched:
            # No free one: where work runs on after a call, its time would not be known.
            return Pass.CLEAN
        return Pass.TIMED if self.timed < min(WANTED_TIMED, self.count // 2) else None


class Kinds:
    """Kinds of steps, and which of them the next one may be."""

    def __init__(self) -> None:
        self.seen: dict[int, KindSeen] = {}
        self._tries = self._asked = 0
        self._number = 0

    def came(self, kind: int, number: int, pass_: str, duration_ns: int) -> None:
        """A step ended, and it is known of which kind it was."""
        self.seen.setdefault(kind, KindSeen()).came(number, pass_, duration_ns)
        self._number = number

    def wish(self, chosen: str, offers: "Collection[str]" = INSTRUMENTED) -> str | None:
        """A pass for the next step in place of the one that was chosen, for the sake of a kind that
        lacks it; where nobody knows of what kind it will be, only of a step to be left alone.
        `offers` are the passes that the framework has instruments for."""
        if not 2 <= len(self.seen) <= MOST_KINDS or chosen == Pass.WARMUP:
            return None
        total = sum(kind.total_ns for kind in self.seen.values())
        # Steps that only describing made long are no kind that comes again.
        lacking = [
            kind for kind in self.seen.values()
            if kind.count - kind.described > 1 and kind.lacks(offers)
            and kind.total_ns >= LEAST_SHARE * total
        ]  # fmt: skip
        if not lacking:
            return None
        # The usual kind has its turns in the plan.
        least = 1 if chosen == Pass.FREE else 2
        ahead = {kind.last + kind.gap: kind for kind in lacking if kind.gap >= least}
        if self._number + 1 in ahead:
            return ahead[self._number + 1].lacks(offers)
        after = ahead.get(self._number + 2)
        if after is not None and disturbs(chosen, after.lacks(offers) or ""):
            return Pass.SETTLING
        return self._tried(lacking, offers) if chosen == Pass.FREE else None

    def _tried(self, lacking: "list[KindSeen]", offers: "Collection[str]") -> str | None:
        """Nobody knows when it comes again: try now and then."""
        self._asked += 1
        if self._tries >= MOST_TRIES or self._asked % TRY_EVERY:
            return None
        self._tries += 1
        return max(lacking, key=lambda kind: kind.total_ns).lacks(offers)
