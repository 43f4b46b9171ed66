"""Steps as they are written down: several together, each with the number of its kind."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof_recorder.log import Log

# Steps are written down together, at most so late: a program may end without a word (os._exit,
# SIGKILL), and writing takes about four microseconds.
FLUSH_NS = 5_000_000
# Single steps are kept of the first so many; of later ones how many and how long.
MOST_STEPS = 20_000
# Steps of a kind whose times tell what is usual, and how many times longer a step of another is.
RECENT, LONGER = 15, 4.0
# More different sizes of what otherwise is the same are no kinds.
MOST_SIZES = 4
VARYING = "varying"


class StepLog:
    """Writes steps into a log, and knows the kinds that they are of."""

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._written = self._flushed_ns = 0
        self._waiting: list[tuple[object, ...]] = []
        self._later: dict[int, list[int]] = {}
        self._keys: dict[tuple[object, ...], int] = {}
        self._recent: dict[tuple[object, ...], list[int]] = {}
        self._sizes_of: dict[tuple[object, ...], list[tuple[tuple[int, ...], ...]]] = {}

    def restart(self) -> None:
        """Count steps from the beginning; kinds keep their numbers."""
        self._written, self._later = 0, {}

    def size_of(self, items: tuple[object, ...], sizes: tuple[tuple[int, ...], ...]) -> object:
        """The sizes of a step where there are few different ones; else that they vary."""
        known = self._sizes_of.setdefault(items, [])
        if sizes not in known and len(known) <= MOST_SIZES:
            known.append(sizes)
        return sizes if len(known) <= MOST_SIZES else VARYING

    def kind_of(self, what: tuple[object, ...], own_ns: int | None, *, is_usual: bool) -> int:
        """The number of a step's kind: what happened in it, and whether it took far longer than
        others; None where its time says nothing. What is usual follows from usual steps."""
        usual = self._recent.setdefault(what, [])
        is_long = False
        if own_ns is not None:
            if len(usual) >= 2:
                is_long = own_ns > LONGER * sorted(usual)[len(usual) // 2]
            if is_usual:
                usual.append(own_ns)
                del usual[:-RECENT]
        key = (*what, is_long)
        number = self._keys.get(key)
        if number is None:
            number = self._keys[key] = len(self._keys)
            self._log.write("kind", number, key)
        return number

    def write(
        self, step: tuple[object, ...], kind: int, duration_ns: int, end_ns: int, *, is_kept: bool
    ) -> None:
        """Note a step; one that `is_kept` is written at once, with all before it."""
        if self._written < MOST_STEPS or is_kept:
            self._written += 1
            self._waiting.append(step)
        else:
            both = self._later.setdefault(kind, [0, 0])
            both[0] += 1
            both[1] += duration_ns
        if is_kept or end_ns - self._flushed_ns > FLUSH_NS:
            self.flush(step[0])
            self._flushed_ns = end_ns

    def flush(self, number: object) -> None:
        """Write down what waits; `number` is that of the last step."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._log.write("steps", waiting)
        if self._later:
            later, self._later = self._later, {}
            self._log.write("later", number, later)
