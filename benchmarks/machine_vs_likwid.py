"""Our ceilings against likwid-bench's, alternating in one run, the best of several.

    python benchmarks/machine_vs_likwid.py [--threads 1,2] [--only l1,dram] [--sample-ms 5]

likwid-bench is in Debian's and Ubuntu's package likwid (apt-get install likwid). Both sides get
the same working set and the same length of a sample. A first round runs all of their kernels
and all of ours; then their five best and ours take turns until neither side's best has risen
by 1 % for --patience rounds (at most --rounds): on a busy machine that takes longer, and there
`chrt -r 5` before the command (as root) keeps other programs off the cores, for both sides.
(Not `chrt -f`: there the threads of likwid-bench wait for one another for ever.)
likwid's clload, clstore and clcopy are left out: they touch 8 bytes of each line and count
64, which is not useful traffic.

Exit code 0 if every limit holds. A ratio above 1.10 is only accepted with an explanation that
is itself measured here: see `explain`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from timeroof.probe.cpu import compute, ir, ir as jit
from timeroof.probe.cpu.bandwidth import levels_of, measure_point
from timeroof.probe.cpu.ceilings import limits_of
from timeroof.probe.cpu.crew import Crew
from timeroof.probe.cpu.streams import BLOCK_BYTES, PATTERNS, Stream, compiled_stream
from timeroof.probe.cpu.threads import Region, Team, Work
from timeroof.probe.cpu.topology import find_microarchitecture, read_features, read_topology
from timeroof.probe.sampling import Plan, Watch

LEAST = {"fp64": 0.97, "fp32": 0.97, "l1": 0.95, "l2": 0.95, "l3": 0.90, "dram": 0.95}
MOST = 1.10
KEPT = 5
# A run of likwid-bench takes a second, whatever it measures: ours take so many samples a turn.
TURNS = 5
STILL = 0.01
PASSES = 8
FEATURES = read_features(jit.architecture(), jit.host_features())
STREAMS = ("load", "store", "copy", "stream", "triad", "update", "daxpy", "sum", "ddot")


@dataclass
class Side:
    """One side's ways to reach a figure, and the best that each has shown."""

    ways: dict[str, Callable[[], float]]
    best: dict[str, float] = field(default_factory=dict)

    def turn(self, name: str) -> float:
        rate = self.ways[name]()
        self.best[name] = max(self.best.get(name, 0.0), rate)
        return rate

    def leaders(self) -> list[str]:
        return sorted(self.best, key=lambda n: -self.best[n])[:KEPT]

    @property
    def winner(self) -> tuple[str, float]:
        name = self.leaders()[0]
        return name, self.best[name]


@dataclass
class Quantity:
    """A figure that both sides measure."""

    name: str
    threads: int
    size_bytes: int
    ours: Side
    theirs: Side
    crew: Crew
    # The best of each side per round: neighbours in time, whatever the memory does meanwhile.
    rounds: list[tuple[float, float]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.ours.winner[1] / self.theirs.winner[1]

    @property
    def paired_ratio(self) -> float:
        """The median of the rounds' ratios: on a shared host DRAM drifts from minute to minute."""
        return statistics.median(ours / theirs for ours, theirs in self.rounds)


# --- likwid-bench ----------------------------------------------------------------------------


def likwid(kernel: str, size: int, threads: int, iterations: int) -> dict[str, float]:
    """One run of likwid-bench: the figures that it prints, in its units."""
    command = ["likwid-bench", "-t", kernel, "-W", f"S0:{size // 1000}kB:{threads}"]
    command += ["-i", str(iterations)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return {}
    found = re.findall(r"^(Time|MFlops/s|MByte/s):\s+([\d.e+-]+)", done.stdout, re.M)
    return {name: float(value) for name, value in found}


def likwid_kernels() -> set[str]:
    done = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True)
    return {line.split(" - ")[0].strip() for line in done.stdout.splitlines() if " - " in line}


def suffixes() -> list[str]:
    """How kernels are named that use this CPU's widest instructions."""
    wide = {512: "_avx512", 256: "_avx", 128: "_sse"}
    names = (
        [wide[w] for w in FEATURES.widths_bits[-2:]] if FEATURES.architecture == "x86_64" else []
    )
    return [s + f for s in names for f in ("", "_fma")] or ["", "_neon", "_sve"]


def their_compute(precision: str, crew: Crew, sample_s: float, known: set[str]) -> Side:
    stem = "peakflops" + ("_sp" if precision == "fp32" else "")
    names = [n for s in suffixes() if (n := stem + s) in known] or [stem]
    threads = crew.team.size
    size = 16_000 * threads
    return Side({n: _likwid_way(n, size, threads, sample_s, "MFlops/s") for n in names})


def their_memory(level: str, size: int, crew: Crew, sample_s: float, known: set[str]) -> Side:
    ways = [""] if level != "dram" else ["", "_mem"]
    names = {s + w + x for s in STREAMS for w in ways for x in suffixes()} & known
    threads = crew.team.size
    return Side({n: _likwid_way(n, size, threads, sample_s, "MByte/s") for n in sorted(names)})


def _likwid_way(
    name: str, size: int, threads: int, sample_s: float, what: str
) -> Callable[[], float]:
    # A guess of the rate; from then on each run corrects the next one.
    iterations = max(2, round(sample_s * (3e10 if size > 10_000_000 else 2e11) / size))

    def run() -> float:
        nonlocal iterations
        found = likwid(name, size, threads, iterations)
        if found.get("Time"):
            iterations = max(2, round(iterations * sample_s / max(found["Time"], 1e-6)))
        return found.get(what, 0.0) * 1e6

    return run


# --- ours ------------------------------------------------------------------------------------


def our_compute(precision: str, crew: Crew, sample_s: float) -> Side:
    plan = Plan(sample_s=sample_s, least=TURNS, most=TURNS)

    def way(width: int, fma: bool) -> Callable[[], float]:
        return lambda: (
            compute.measure_flops(
                crew.team, precision, width, replace(FEATURES, fma=fma), plan
            ).rate_per_s
        )

    kinds = [(w, f) for w in FEATURES.widths_bits[-2:] for f in ({FEATURES.fma, False})]
    return Side({compute.variant_name(w, fma=f): way(w, f) for w, f in kinds})


def our_memory(level: str, size: int, crew: Crew, sample_s: float) -> Side:
    plan = Plan(sample_s=sample_s, least=TURNS, most=TURNS)
    patterns = [p for p in PATTERNS.values() if level == "dram" or not p.streaming]

    def way(pattern_name: str, width: int) -> Callable[[], float]:
        return lambda: (
            measure_point(crew.setup(plan), PATTERNS[pattern_name], size, width).figure.rate_per_s
        )

    return Side(
        {f"{p.name} {w}": way(p.name, w) for p in patterns for w in FEATURES.widths_bits[-2:]}
    )


# --- explanations of a ratio above 1.10 ------------------------------------------------------

# The loop of likwid-bench 5.2's stream_avx_fma as its disassembly shows it: four vectors a
# turn, addresses of base + 8·index. likwid calls it anew for every pass over the arrays.
_LIKWID_LOOP = "\\0A".join(
    ["xorq %rax, %rax", ".p2align 6", "1:"]
    + [f"vmovaps {32 * k}(%rdx,%rax,8), %ymm{k + 1}" for k in range(4)]
    + [f"vfmadd213pd {32 * k}(%rcx,%rax,8), %ymm7, %ymm{k + 1}" for k in range(4)]
    + [f"vmovaps %ymm{k + 1}, {32 * k}(%rsi,%rax,8)" for k in range(4)]
    + ["addq $$16, %rax", "cmpq %rdi, %rax", "jl 1b"]
)
_CLOBBERS = ",".join(f"~{{ymm{k}}}" for k in range(1, 5)) + ",~{rax},~{memory},~{flags}"
_LIKWID_KERNEL = f"""{ir.SIGNATURE} #0 {{
entry:
  br label %again
again:
  %turn = phi i64 [ 0, %entry ], [ %turn_next, %again ]
  call void asm sideeffect "{_LIKWID_LOOP}", "{{rsi}},{{rdx}},{{rcx}},{{rdi}},{_CLOBBERS}"(
    ptr %a, ptr %b, ptr %c, i64 %count)
  %turn_next = add i64 %turn, 1
  %more = icmp ult i64 %turn_next, %repetitions
  br i1 %more, label %again, label %out
out:
  ret i64 %turn_next
}}
"""


def likwid_loop_without_calls(quantity: Quantity) -> float | None:
    """likwid's triad loop in our harness: what it reaches when no pass starts with a call."""
    if FEATURES.architecture != "x86_64" or not FEATURES.fma:
        return None
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmparser()
    kernel = jit.compile_ir(ir.module(_LIKWID_KERNEL))
    team, memory = quantity.crew.team, quantity.crew.memory
    values = quantity.size_bytes // team.size // 24 // 16 * 16
    step = -(-values * 8 // 4096) * 4096
    work = [Work(r.address, r.address + step, r.address + 2 * step, values) for r in memory]
    passes = 20_000
    best_s = min(team.run(kernel, work, passes).time_s for _ in range(40))
    return values * 24.0 * team.size * passes / best_s


def without_huge_pages(quantity: Quantity, sample_s: float, rounds: int) -> float:
    """Ratio with ordinary pages, which is what likwid-bench uses, round by round."""
    crew = quantity.crew
    kept = crew.memory
    crew.memory = [Region(region.size_bytes, huge=False) for region in kept]
    try:
        names = quantity.ours.leaders()
        side = our_memory(quantity.name, quantity.size_bytes, crew, sample_s)
        side.ways = {name: side.ways[name] for name in names}
        plain = replace(quantity, ours=side, rounds=[])
        compare(plain, rounds, patience=8)
        return plain.paired_ratio
    finally:
        crew.memory = kept


def in_one_array(quantity: Quantity) -> float:
    """Our update with the threads' pieces side by side in one array, as likwid-bench has them.

    At the border each core's prefetcher takes lines that the other one is writing.
    """
    team = quantity.crew.team
    blocks = quantity.size_bytes // team.size // BLOCK_BYTES
    size = blocks * BLOCK_BYTES
    region = Region(size * team.size + 4096, huge=False)
    Stream(PATTERNS["update"], region, blocks * team.size).fill()
    work = [Work(region.address + k * size, 0, 0, blocks) for k in range(team.size)]
    best = 0.0
    for width in FEATURES.widths_bits[-2:]:
        kernel = compiled_stream(PATTERNS["update"], width, FEATURES)
        best_s = min(team.run(kernel, work, 4000).time_s for _ in range(60))
        best = max(best, 2.0 * size * team.size * 4000 / best_s)
    return best


def alone_times_threads(quantity: Quantity, rounds: int) -> float:
    """likwid-bench's best for one thread on its share of the data, times the threads."""
    size = quantity.size_bytes // quantity.threads
    iterations = max(1, 2_000_000_000 // size)
    best = 0.0
    for _ in range(rounds // 4 + 1):
        for kernel in quantity.theirs.leaders():
            best = max(best, likwid(kernel, size, 1, iterations).get("MByte/s", 0.0))
    return best * 1e6 * quantity.threads


def explain(quantity: Quantity, sample_s: float, rounds: int) -> tuple[bool, str]:
    """Why ours is above 1.10 of theirs, if something measured here says so."""
    ours = quantity.ours.winner[1]
    if quantity.name == "l1":
        loop = likwid_loop_without_calls(quantity)
        limits = limits_of(quantity.crew, find_microarchitecture(jit.host_cpu_name()))
        if loop is None or limits is None:
            return False, "no explanation for this CPU"
        allowed = limits.bytes_per_s(2, 1)
        text = (
            f"likwid's own triad loop reaches {loop / 1e9:.0f} GB/s in our harness (ours"
            f" {ours / loop:.2f} of that): likwid-bench calls it once per pass over"
            f" {quantity.size_bytes // 1000} kB, a few hundred cycles, and addresses by base +"
            f" index; the ports allow {allowed / 1e9:.0f}"
        )
        return ours <= MOST * loop and ours <= 1.03 * allowed, text
    if quantity.name == "l2" and quantity.threads > 1:
        ratio = in_one_array(quantity) / quantity.theirs.winner[1]
        text = f"with the threads side by side in one array, as likwid-bench has them, {ratio:.2f}"
        if LEAST["l2"] <= ratio <= MOST:
            return True, text + ": prefetchers meet at the border"
        alone = alone_times_threads(quantity, rounds)
        return LEAST["l2"] <= ours / alone <= MOST, (
            f"{text}; {ours / alone:.2f} of likwid-bench's own figure for one thread times"
            f" {quantity.threads} ({alone / 1e9:.0f} G/s): this cache is private to a core, so"
            " its threads lose that on waiting for one another"
        )
    if quantity.name in ("l2", "l3", "dram"):
        plain = without_huge_pages(quantity, sample_s, rounds)
        text = (
            f"with ordinary pages, as likwid-bench has, ours is {plain:.2f} of theirs"
            " (median of rounds)"
        )
        good = LEAST[quantity.name] <= plain <= MOST
        return good, text + (
            ": huge pages save misses of the TLB and collisions in the cache" if good else ""
        )
    return False, "no explanation known"


# --- the comparison --------------------------------------------------------------------------


def quantities(crew: Crew, sample_s: float, known: set[str]) -> list[Quantity]:
    threads = crew.team.size
    found = []
    for precision in compute.PRECISIONS:
        ours = our_compute(precision, crew, sample_s)
        theirs = their_compute(precision, crew, sample_s, known)
        found.append(Quantity(precision, threads, 16_000 * threads, ours, theirs, crew))
    for held in crew.levels:
        size = held.level.anchors[0] // 1000 * 1000
        # A few passes at least, whatever a working set takes.
        length_s = max(sample_s, PASSES * size / 5e10)
        ours = our_memory(held.level.name, size, crew, length_s)
        theirs = their_memory(held.level.name, size, crew, length_s, known)
        found.append(Quantity(held.level.name, threads, size, ours, theirs, crew))
    return found


def compare(quantity: Quantity, rounds: int, patience: int) -> None:
    """All ways once, then the leaders in turns until neither side rises any more."""
    for side in (quantity.ours, quantity.theirs):
        for name in side.ways:
            if name not in side.best:
                side.turn(name)
    quiet = 0
    for _ in range(rounds):
        before = quantity.ours.winner[1], quantity.theirs.winner[1]
        ours, theirs = [0.0], [0.0]
        # Ours take milliseconds, so that all of them can have a turn.
        for mine, other in zip_longest(quantity.ours.ways, quantity.theirs.leaders()):
            if mine is not None:
                ours.append(quantity.ours.turn(mine))
            if other is not None:
                theirs.append(quantity.theirs.turn(other))
        if max(theirs) > 0:
            quantity.rounds.append((max(ours), max(theirs)))
        after = quantity.ours.winner[1], quantity.theirs.winner[1]
        rose = any(new > (1 + STILL) * old for old, new in zip(before, after, strict=True))
        quiet = 0 if rose else quiet + 1
        if quiet == patience:
            break


def report(quantity: Quantity, sample_s: float, rounds: int) -> bool:
    ratio, least = quantity.ratio, LEAST[quantity.name]
    (mine, rate), (other, other_rate) = quantity.ours.winner, quantity.theirs.winner
    good, why = ratio >= least, ""
    if ratio > MOST:
        good, why = explain(quantity, sample_s, rounds)
    print(
        f"{quantity.name:5} {quantity.threads} thread(s) {quantity.size_bytes / 1000:9.0f} kB"
        f"  ours {rate / 1e9:7.1f} G/s ({mine})  likwid {other_rate / 1e9:7.1f} G/s ({other})"
        f"  ratio {ratio:.3f} (limits {least:.2f} to {MOST:.2f})  {'pass' if good else 'FAIL'}",
        flush=True,
    )
    if why:
        print(f"      above {MOST:.2f}: {why}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="most turns after the first")
    parser.add_argument("--threads", default="", help="such as 1,2; default: one and all cores")
    parser.add_argument("--sample-ms", type=float, default=5.0, help="length of one sample")
    parser.add_argument("--only", default="", help="such as l1,dram; default: everything")
    parser.add_argument("--patience", type=int, default=4, help="rounds without a rise to end")
    args = parser.parse_args()
    if shutil.which("likwid-bench") is None:
        print("likwid-bench is not installed: apt-get install likwid (Debian, Ubuntu), or see")
        print("https://github.com/RRZE-HPC/likwid; then run this again")
        return 2
    topology, known = read_topology(), likwid_kernels()
    counts = [int(n) for n in args.threads.split(",") if n] or sorted({1, len(topology.cores)})
    good, watch = True, Watch()
    for count in counts:
        cpus = topology.cores[:count]
        with Team(cpus) as team:
            levels = levels_of(topology, cpus, 1 << 32)
            crew = Crew.make("all", team, levels, FEATURES, quick=False)
            crew.take_clock()
            for quantity in quantities(crew, args.sample_ms * 1e-3, known):
                if args.only and quantity.name not in args.only.split(","):
                    continue
                compare(quantity, args.rounds, args.patience)
                crew.take_clock()
                good = report(quantity, args.sample_ms * 1e-3, args.rounds) and good
    for warning in watch.warnings():
        print(f"warning: {warning}")
    print("all limits hold" if good else "some limits do NOT hold")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
