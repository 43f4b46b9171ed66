"""The protocol between the neutral session and a framework: what one file of instruments gives.

The session knows steps, kinds of them, schedules, clocks, forks, signals and the record. A
framework says when something happened that may mark a step, switches its own profiler on and off,
and describes ops. Everything that crosses is plain data (numbers, text, bytes, tuples, lists,
dicts), as it is written to a file and read by another process.
"""

from timeroof_recorder.process import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from timeroof_recorder.marks import Marks

# What an event is: an op, a node of a backward pass, a region that the program named.
OP, NODE, REGION = 0, 1, 7
# What the own time of an event that is no op goes to, and of a region whose cost the user stated.
STATED = "stated"


class Events:
    """The events of one pass as rows, and its begin and end on the clock of the events.

    A row is (name, start_ns, duration_ns, thread, sequence, kind). `sequence` ties a backward op
    to its forward op, -1 where nothing does. `thread` numbers are the framework's.
    """

    def __init__(
        self, rows: "Iterable[tuple[str, int, int, int, int, int]]", begin_ns: int, finish_ns: int,
        thread: int,
    ) -> None:  # fmt: skip
        numbers: dict[str, int] = {}
        self.rows = [(numbers.setdefault(row[0], len(numbers)), *row[1:]) for row in rows]
        self.names = list(numbers)
        self.begin_ns, self.finish_ns, self.thread = begin_ns, finish_ns, thread

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def busy_ns(self) -> int:
        """How long ops ran, in whichever thread."""
        return union([(row[1], row[1] + max(0, row[2])) for row in self.rows if row[5] == OP])


class EventFile:
    """The events of one pass as the framework's own trace, for its reader in `timeroof.live`.

    Begin and end are on our clock. `keep` puts the trace into a file and gives plain data that
    names it: a pass that nobody keeps leaves none.
    """

    def __init__(
        self, count: int, begin_ns: int, finish_ns: int, keep: "Callable[[], dict[str, object]]",
        busy: "Callable[[], int]" = lambda: 0,
    ) -> None:  # fmt: skip
        self.count, self.begin_ns, self.finish_ns, self._keep = count, begin_ns, finish_ns, keep
        self._busy = busy

    def __len__(self) -> int:
        return self.count

    @property
    def busy_ns(self) -> int:
        """How long ops ran, in whichever thread."""
        return self._busy()

    @property
    def plain(self) -> dict[str, object]:
        """As the record has it."""
        return {"events": self.count, **self._keep()}


class Instruments:
    """What a framework gives; every method may be left as it is here, but for `name`."""

    name = ""
    version = ""
    # Whether ops are to be told apart by the line of the program.
    with_lines = False
    # Whether calls return before their work is done: steps are measured with a `sync` at both ends.
    is_asynchronous = False
    # The clock of the small programs' own time: the thread's, or the process's where a framework
    # runs them in threads of its own.
    own_time_ns: "Callable[[], int]" = staticmethod(time.thread_time_ns)
    # Set by the session: a path for a file of the record's, and a word to it.
    file_for: "Callable[[str, str], str]"
    tell: "Callable[[str, object], None]"

    @property
    def offers(self) -> frozenset[str]:
        """Passes that this framework has instruments for: timed, described, primitives, device."""
        return frozenset({"timed"})

    def attach(self, marks: "Marks") -> None:
        """Tell `marks` of optimizer steps (`marks.stepped`) and outermost calls of models or
        compiled functions (`marks.called`) from now on. Called again in a forked child, with marks
        of its own. Flags of a call are "train" or "eval", with " grad" where gradients are kept,
        and "" where nobody knows."""

    def attach_marks(self, marks: "Marks") -> None:
        """As `attach`, for a process in which no pass is ever switched on."""
        self.attach(marks)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Folders of the framework's own code: no window of time begins or ends inside it."""
        return ()

    def watch(self, roots: frozenset[int] | None) -> None:
        """Only calls of these modules, by the keys that `called` was given, are wanted from now
        on; None: of all. More may be told."""

    def detach(self) -> None:
        """Leave the framework as it was."""

    def sync(self) -> bool:
        """Wait for work that was launched and runs on by itself; asked before an instrumented pass
        begins, and before it ends; of an asynchronous framework before every step ends that is
        measured. Whether there was anything to wait for."""
        return False

    def is_used(self) -> bool:
        """Whether the program has computed anything with it; an import alone is no use."""
        return True

    def will_train(self) -> bool:
        """Whether the program has made an optimizer that has not stepped yet."""
        return False

    def is_foreign(self) -> bool:
        """Whether the program's own profiler is on."""
        return False

    def start(self, pass_: str) -> bool:
        """Switch the instruments of a pass on; False where that cannot be done now. Passes are
        those that it `offers`, and "block": timed and described at once."""
        return False

    def stop(self, pass_: str) -> "Events | EventFile | None":
        """Switch them off; the timed events of the pass, None where there are none."""
        return None

    def bound(self, *, begins: bool) -> None:
        """The block that is being recorded begins or ends here, whatever is recorded around it:
        beside this one, other frameworks' profilers are switched on or off."""

    def abort(self) -> None:
        """Switch off whatever is on, and forget it."""

    def describe(self) -> dict[str, object] | None:
        """The pass that `stop` ended, as plain data.

        Of a described pass `ops`, in the order of their beginning, each
        (name, parent, thread, sequence, kind, inputs, outputs, phase, module, source, op): `parent`
        is a place in the list or None, tensors are ("tensor", shape, dtype, strides, storage,
        offset, item_bytes, device), `op` names the formula that counts it (None: its own name).
        A framework that has a folder of its own in `timeroof.live` may give anything that its
        reader there takes.
        """
        return None

    def cause(self, name: str, is_numbered: bool) -> str | None:
        """The idle cause that an event's own time goes to; None for an op, `STATED` for a region
        whose cost the user states."""
        return None

    def phase(self, name: str) -> str | None:
        """The phase that an event opens for everything below it, if its name tells one."""
        return None

    def surroundings(self) -> dict[str, object]:
        """What is around: `threads`, `rank`, `world`, `devices`, as far as known."""
        return {}

    def small_programs(self) -> "tuple[Callable[[], None], Callable[[], None]] | None":
        """Two programs of the framework's ops for calibration: one whose ops follow one another
        closely, and one with kernels of ten microseconds between them."""
        return None

    def forked(self) -> None:
        """This is a forked child now: what the parent had switched on is not here."""


# Frameworks by the module whose import brings them in, and where their instruments are.
FRAMEWORKS: dict[str, str] = {
    "torch": "timeroof_recorder.torch",
    "jax": "timeroof_recorder.jax",
    "tensorflow": "timeroof_recorder.tensorflow",
}


def instruments_of(name: str, homes: dict[str, str] = FRAMEWORKS) -> Instruments:
    """The instruments of a framework that has been imported, from `make()` of their module."""
    module = __import__(homes[name], fromlist=["make"])
    made: Instruments = module.make()
    return made


# How many values of a container are looked at for a size.
_FEW = 4


def sizes_of(args: tuple[object, ...]) -> tuple[int, ...]:
    """The sizes of the last argument that has any: parameters come first, a batch last.

    >>> class Array:
    ...     shape = (8, 3)
    >>> sizes_of(({"w": None}, {"image": Array(), "label": 0}, 7))
    (8, 3)
    """
    for given in reversed(args):
        if (shape := getattr(given, "shape", None)).__class__ is tuple and shape:
            return tuple(size for size in shape if isinstance(size, int))
        values = given.values() if isinstance(given, dict) else given
        few = list(values)[:_FEW] if isinstance(values, (tuple, list)) else [given]
        if isinstance(given, dict):
            few = list(given.values())[:_FEW]
        for value in few:
            shape = getattr(value, "shape", None)
            if shape is not None and not callable(shape) and len(shape or ()):
                return tuple(size for size in shape if isinstance(size, int))
    return ()


def union(spans: "list[tuple[int, int]]") -> int:
    """How long at least one of them was under way.

    >>> union([(0, 4), (1, 2), (3, 6), (8, 9)])
    7
    """
    total = reached = 0
    for start, end in sorted(spans):
        if end > reached or not total:
            total += end - max(start, reached if total else start)
            reached = end
    return total
