"""Where a step ends: optimizers' steps, else calls of outermost modules, or the program says so."""

import _thread

from timeroof_recorder.process import is_running, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

AUTO, OPTIMIZER, FORWARD, MANUAL, WINDOW = "auto", "optimizer", "forward", "manual", "window"
# Forward calls after which a program that has an optimizer but never steps counts as inference,
# until the optimizer does step.
PATIENCE = 16
# Forward calls of the same module that show a loop.
LOOP = 2
# How many times rarer than what marked a step until now the mark of the whole cycle may be: of
# optimizers and of modules in training, and of modules that only compute (tokens of a sentence).
MOST_RARER, MOST_RARER_INFERENCE = 16, 1024
MOST_TIMES = 64
# What tells most of where a program's steps are.
STRENGTH = {"": -1, WINDOW: 0, FORWARD: 1, OPTIMIZER: 2, MANUAL: 3}
MOST_ITEMS = 24
# Different sizes of calls in one step that are kept; and calls of a module, with the same flags,
# that are looked at for them where later ones may be only counted.
MOST_SIZES = 4
MOST_LOOKED = 4

NOTHING, BOUNDARY, RESTART, TAKEN = "nothing", "boundary", "restart", "taken"


class Cycle:
    """Which of several recurring events marks the program's cycle: the rarest of them.

    Two updates of a critic and one of a generator are one cycle, that the generator ends.

    >>> cycle = Cycle(16)
    >>> [cycle.came(key) for key in "ddgddgddg"]  # doctest: +NORMALIZE_WHITESPACE
    ['boundary', 'boundary', 'nothing', 'boundary', 'boundary', 'restart', 'nothing', 'nothing',
     'boundary']

    A request is one call of the encoder, and of the decoder and the head one per token.

    >>> cycle = Cycle(16)
    >>> [cycle.came(key) for key in "dodoedodoedodoedodo"].count("taken"), cycle.leader
    (0, 'e')

    One that follows another for good (the next fold, the next trial) takes its place.

    >>> cycle = Cycle(16)
    >>> [cycle.came(key) for key in "aaabbb"]
    ['boundary', 'boundary', 'boundary', 'nothing', 'taken', 'boundary']
    """

    def __init__(self, most_rarer: int) -> None:
        self.most_rarer = most_rarer
        self.leader: object = None
        self.counts: dict[object, int] = {}
        # Steps of the leader since each other one's last, and each one's own since the leader's.
        self._leads: dict[object, int] = {}
        self._inside: dict[object, int] = {}
        self._known: set[object] = set()

    def came(self, key: object, is_leader_alive: bool = True) -> str:
        """An event came: whether it ends a step, and whether the steps before were none."""
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.leader is None:
            self.leader = key
            return BOUNDARY
        if key == self.leader:
            for other in self._leads:
                self._leads[other] += 1
            self._known.update(self._inside)
            self._inside = {}
            return BOUNDARY
        self._inside[key] = self._inside.get(key, 0) + 1
        passed, self._leads[key] = self._leads.get(key), 0
        if passed is not None and 2 <= passed <= self.most_rarer:
            return self._leads_now(key, RESTART)
        if not is_leader_alive or (self._inside[key] > 1 and key not in self._known):
            return self._leads_now(key, TAKEN)
        return NOTHING

    def recurs_inside(self, key: object) -> bool:
        """Whether an event is known to come several times between those of the leader."""
        return key != self.leader and key in self._known and self._inside.get(key, 0) > 1

    def _leads_now(self, key: object, how: str) -> str:
        self.leader = key
        self._leads, self._inside = {}, {}
        # All that recurs inside a cycle has been seen by now; who takes a place has it alone.
        self._known = set(self.counts) - {key} if how == RESTART else set()
        return how


class Marks:
    """What a framework's instruments tell of the program, made into steps.

    `boundary(end_ns)` is called between steps, `restart(times)` where what was taken for steps
    were parts of them. What happened in a step is kept as a tally: it tells kinds apart.
    """

    def __init__(
        self, wanted: str, boundary: "Callable[[int], None]",
        restart: "Callable[[list[int]], None]" = lambda times: None,
        *, watch: "Callable[[frozenset[int] | None], None]" = lambda roots: None,
        will_train: "Callable[[], bool]" = lambda: False,
    ) -> None:  # fmt: skip
        self.wanted = wanted
        self.found = ""
        self.label = ""
        self.first_ns: int | None = None
        # Before the first call: when the program last began to fetch batches, and when a compiler
        # first went to work.
        self._fetch_ns: int | None = None
        self._compile_ns: int | None = None
        self._boundary, self._restart = boundary, restart
        self._watch, self._will_train = watch, will_train
        self._optimizers, self._modules = Cycle(MOST_RARER), Cycle(MOST_RARER)
        self._times: dict[object, list[int]] = {}
        self._labels: dict[object, str] = {}
        self._alive: dict[object, Callable[[], bool]] = {}
        self._calls = 0
        # Modules whose calls were seen since all of them are told, and whether they are again.
        self._roots: set[int] = set()
        self._learns = False
        self._tally: dict[tuple[str, ...], int] = {}
        self._sizes: list[tuple[int, ...]] = []
        # Calls of each module in this step that were told, by their flags, and where the framework
        # only counts some: their labels, flags and number.
        self._looked: dict[tuple[int, str], int] = {}
        self.counted: Callable[[], list[tuple[str, str, int]]] | None = None
        self.thread: int | None = None
        # While a mark is looked at, no window may end.
        self._is_busy = False
        # Whether a thread marked a step while another one was looked at in windows of time, and who
        # ends those windows then.
        self.has_steps_elsewhere = False
        self.end_windows: Callable[[], None] = lambda: None
        # Marks in other threads than the one whose steps are looked at.
        self.elsewhere: dict[int, int] = {}

    @property
    def began_ns(self) -> int | None:
        """When the first step began: with the first call, or with what that call had to wait for,
        its batch or its compiler."""
        if self.first_ns is None:
            return None
        return min(t for t in (self.first_ns, self._fetch_ns, self._compile_ns) if t is not None)

    def fetches(self) -> None:
        """The program begins to fetch batches: the last time before the first step, for it."""
        if self.first_ns is None:
            self._fetch_ns = time.perf_counter_ns()

    def compiles(self) -> None:
        """A compiler goes to work."""
        if self.first_ns is None and self._compile_ns is None:
            self._compile_ns = time.perf_counter_ns()

    @property
    def strength(self) -> int:
        """How much what marks steps tells: of two frameworks the one that trains has the steps."""
        return STRENGTH[self.found]

    @property
    def is_sure(self) -> bool:
        """Whether no other framework can have the program's steps."""
        return self.found in (OPTIMIZER, MANUAL)

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules may mark steps, or tell kinds of them apart."""
        return self.wanted in (AUTO, FORWARD, OPTIMIZER)

    @property
    def wants_steps(self) -> bool:
        """Whether steps of optimizers mark steps."""
        return self.wanted in (AUTO, OPTIMIZER)

    def stepped(
        self, key: object, label: str, is_alive: "Callable[[], bool]", words: str | None = None
    ) -> None:
        """An optimizer has stepped; `words` say what that was where it is not called so."""
        self._is_busy = True
        try:
            self._stepped(key, label, is_alive, words or f"{label}.step")
        finally:
            self._is_busy = False

    def _stepped(self, key: object, label: str, is_alive: "Callable[[], bool]", words: str) -> None:
        now_ns = time.perf_counter_ns()
        if not self.wants_steps or self.found == MANUAL or not self._is_here(now_ns):
            return
        self._count(("optimizer", label))
        self._note(key, words, now_ns, is_alive)
        if self.found in (FORWARD, WINDOW):
            # Forward calls that were taken for steps before it were parts of one.
            self._restart([])
        self.found = OPTIMIZER
        alive = self._alive.get(self._optimizers.leader, is_alive)
        how = self._optimizers.came(key, alive())
        if how == RESTART:
            self._restart(self._times.get(key, [])[:-1])
        self._end(how, key, now_ns)
        if how == TAKEN:  # the next fold's modules are new, too
            self._learns, self._roots = True, set()
            self._watch(None)
        elif self._roots and how == BOUNDARY:
            self._watch(frozenset(self._roots))
            self._learns, self._roots = False, set()

    def called(
        self, key: int, label: str, flags: str, sizes: tuple[int, ...],
        is_alive: "Callable[[], bool]",
    ) -> bool:  # fmt: skip
        """A module is called from outside of any other: a step of its own, unless one trains.
        Whether more such calls need only be `counted` until the step ends."""
        self._is_busy = True
        try:
            if self.found not in (MANUAL, OPTIMIZER):
                self._called(key, label, flags, sizes, is_alive)
            elif self.found == OPTIMIZER and _thread.get_ident() == self.thread:
                if self._learns:
                    self._roots.add(key)
                self._forwarded(key, label, flags, sizes)
            return self._looked.get((key, flags), 0) >= MOST_LOOKED and self._is_inside(key)
        finally:
            self._is_busy = False

    def _is_inside(self, key: int) -> bool:
        """Whether a module's calls are parts of steps that something else marks."""
        if self.found == FORWARD:
            return self._modules.recurs_inside(key)
        return self.found == OPTIMIZER and _thread.get_ident() == self.thread

    def _called(
        self, key: int, label: str, flags: str, sizes: tuple[int, ...],
        is_alive: "Callable[[], bool]",
    ) -> None:  # fmt: skip
        now_ns = time.perf_counter_ns()
        if self.found == FORWARD and not self._is_here(now_ns):
            return
        if self.first_ns is None:
            self.first_ns = now_ns
        self._calls += 1
        self._roots.add(key)
        self._note(key, f"a call of {label}", now_ns, is_alive)
        times = len(self._times[key])
        waits = self.wanted == AUTO and self._calls < PATIENCE
        if self.wanted == OPTIMIZER or (
            self.found != FORWARD and (times < LOOP or (waits and self._will_train()))
        ):
            self._forwarded(key, label, flags, sizes)
            return
        if not self._is_here(now_ns):
            return
        self._forward(key, label, flags, sizes, now_ns)

    def _forward(
        self, key: int, label: str, flags: str, sizes: tuple[int, ...], now_ns: int
    ) -> None:
        if self.found != FORWARD:
            if self.found == WINDOW:
                self._restart([])
            self.found = FORWARD
            self._modules.counts = {k: len(v) for k, v in self._times.items()}
        self._modules.most_rarer = MOST_RARER if "grad" in flags else MOST_RARER_INFERENCE
        alive = self._alive.get(self._modules.leader, lambda: True)
        how = self._modules.came(key, alive())
        if how == RESTART:
            # The very first call has no step before it.
            times = self._times.get(key, [])[:-1]
            self._restart([time_ns for time_ns in times if time_ns != self.first_ns])
        self._end(how, key, now_ns)
        # The call that ends a step begins the next one, and is a part of that.
        self._forwarded(key, label, flags, sizes)
        if len(self._modules.counts) == 1 and self._modules.counts[key] == PATIENCE:
            self._watch(frozenset({key}))

    def manual(self) -> None:
        """The program itself says that a step ended; from now on only it does."""
        now_ns = time.perf_counter_ns()
        if self.found != MANUAL:
            if self.found == WINDOW:
                self._restart([])
            self.found, self.label = MANUAL, "timeroof.step()"
            self._watch(frozenset())
        if self._is_here(now_ns):
            self._boundary(now_ns)

    def window(self) -> None:
        """Nothing marks a step: a stretch of time ends. Where another thread has marked one
        meanwhile, windows of this thread end: what is switched on is switched off here."""
        if self.has_steps_elsewhere and self.found == WINDOW:
            self._restart([])
            self.found, self.label, self.thread = "", "", None
        elif self.found in ("", WINDOW) and not self._is_busy and not self.has_steps_elsewhere:
            self.found, self.label = WINDOW, "windows of time, as nothing marks a step"
            self.thread = _thread.get_ident()
            self._boundary(time.perf_counter_ns())

    def tally(self) -> tuple[tuple[tuple[object, ...], ...], tuple[tuple[int, ...], ...]]:
        """What happened since the last boundary, with rough counts, and the different
        sizes of calls."""
        for label, flags, more in self.counted() if self.counted is not None else ():
            self._count(("forward", label, flags), more)
        items = tuple(sorted((*item, _rough(count)) for item, count in self._tally.items()))
        sizes = tuple(self._sizes)
        self._tally, self._sizes, self._looked = {}, [], {}
        return items, sizes

    def _end(self, how: str, key: object, now_ns: int) -> None:
        if how != NOTHING:
            self.label = self._labels[key]
            self._boundary(now_ns)

    def _note(self, key: object, label: str, now_ns: int, is_alive: "Callable[[], bool]") -> None:
        if key in self._alive and not self._alive[key]():  # another one has its place in memory
            self._times.pop(key, None)
        self._labels[key], self._alive[key] = label, is_alive
        times = self._times.setdefault(key, [])
        if len(times) < MOST_TIMES:
            times.append(now_ns)
        if self.first_ns is None:
            self.first_ns = now_ns

    def _forwarded(self, key: int, label: str, flags: str, sizes: tuple[int, ...]) -> None:
        self._count(("forward", label, flags))
        self._looked[key, flags] = looked = self._looked.get((key, flags), 0) + 1
        if looked > MOST_LOOKED and self.counted is not None:
            return
        if len(self._sizes) < MOST_SIZES and sizes not in self._sizes:
            self._sizes.append(sizes)

    def _count(self, item: tuple[str, ...], more: int = 1) -> None:
        if item in self._tally or len(self._tally) < MOST_ITEMS:
            self._tally[item] = self._tally.get(item, 0) + more

    def _is_here(self, now_ns: int) -> bool:
        """Whether this is the thread whose steps are looked at: the first that has any, or one
        that steps when that has ended."""
        me = _thread.get_ident()
        if self.found == WINDOW and self.thread != me:
            self.has_steps_elsewhere = True
            self.end_windows()
            if self.found == WINDOW:
                return False
        if self.thread is None or (self.thread != me and not is_running(self.thread)):
            self.thread = me
        if self.thread == me:
            return True
        self.elsewhere[me] = self.elsewhere.get(me, 0) + 1
        return False


def _rough(count: int) -> int:
    """A count that is the same for nearly equal ones.

    >>> [_rough(n) for n in (1, 3, 8, 9, 120, 128)]
    [1, 3, 8, 16, 128, 128]
    """
    return count if count <= 8 else 1 << (count - 1).bit_length()
