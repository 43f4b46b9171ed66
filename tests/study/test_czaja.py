"""The preset of Czaja et al.: its kernels, where they run, what they use of the compute roof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.counters.standin import install
from tests.probe.fake_system import cpu, write
from tests.study.factor_samples import PEAK, study_machine
from timeroof.core.errors import UsageError
from timeroof.core.machine import Ceiling, Machine
from timeroof.probe.cpu.topology import Topology, numa_nodes, read_topology
from timeroof.study import counters, czaja
from timeroof.study.case import Case, Plan, Result
from timeroof.study.czaja import KERNELS, Studied, preset_cases, utilised
from timeroof.study.output.page import write_study
from timeroof.study.output.utilisation import print_study, utilisation_table
from timeroof.study.report import Study, judged_study
from timeroof.study.worker import turns as placing
from timeroof_recorder.counted import REPETITIONS

NINE = [one for one in KERNELS if not one.reference]
FAST = Plan(
    warmup_s=0.01, budget_s=0.02, least=2, limit_s=60.0, one_thread_beside_others=False,
    bind=True, overwrite_bytes=1 << 20,
)  # fmt: skip


# Two sockets of two cores, each with a memory node of its own, on a machine that is not this one.


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    files = {}
    for number in range(4):
        files |= cpu(number, str(number), package=number // 2, l3=f"{number // 2 * 2}-3")
    nodes = {f"sys/devices/system/node/node{n}/cpulist": f"{2 * n}-{2 * n + 1}\n" for n in (0, 1)}
    return write(tmp_path, files | nodes | {"sys/devices/system/node/online": "0-1"})


def test_cores_and_memory_of_two_sockets(two_sockets: Path) -> None:
    topology, nodes = read_topology(two_sockets, allowed=range(4)), numa_nodes(two_sockets)
    assert nodes == {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    assert placing.place_counts(topology) == [1, 2, 4]
    found = [placing.placement(topology, nodes, count) for count in (1, 2, 4)]
    assert [(p.scope, p.cores, p.nodes) for p in found] == [
        ("core", (0,), (0,)),
        ("socket", (0, 1), (0,)),
        ("all", (0, 1, 2, 3), (0, 1)),
    ]
    assert found[1].words == "1 socket, cores 0-1, memory of node 0"
    assert found[2].words == "all cores, cores 0-3, memory interleaved over nodes 0-1"


def test_one_socket_and_one_core_are_not_compared_twice() -> None:
    assert placing.place_counts(Topology((0, 1), ((0, 1),), (), "")) == [1, 2]
    assert placing.place_counts(Topology((0,), ((0,),), (), "")) == [1]


def test_binding_asks_the_system_for_the_place(
    two_sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def note(numbers: tuple[int, ...]) -> bool:
        asked.append(numbers)
        return True

    monkeypatch.setattr(placing, "_TOPOLOGY", read_topology(two_sockets, allowed=range(4)))
    monkeypatch.setattr(placing, "numa_nodes", lambda: numa_nodes(two_sockets))
    monkeypatch.setattr(placing, "_pin", note)
    monkeypatch.setattr(placing, "bind_memory", note)
    assert placing.bind(2) == {
        "scope": "socket",
        "placed": "1 socket, cores 0-1, memory of node 0",
    }
    assert asked == [(0, 1), (0,)]
    monkeypatch.setattr(placing, "bind_memory", lambda nodes: False)
    assert placing.bind(4)["placed"].endswith("(refused)")


def test_a_socket_is_judged_on_a_sockets_ceilings() -> None:
    found = judged(machine_of(all=PEAK, socket=PEAK / 2, core=PEAK / 4), threads=(1, 2, 4))
    one = next(one for one in utilised(found.rows) if one.kernel.name == "Inner product")
    shares = {place.scope: row.utilisation for place, row in one.by_place.items()}
    assert shares["socket"] == pytest.approx(2 * (shares["all"] or 0))
    assert shares["core"] == pytest.approx(4 * (shares["all"] or 0))
    assert [place.words for place in czaja.places_of(found.rows)][2:4] == [
        "2 cores (1 socket), warm",
        "2 cores (1 socket), cold",
    ]


# What is measured.


def test_nine_kernels_cold_and_warm_on_every_place() -> None:
    cases = preset_cases([1, 2, 4], quick=False)
    assert len(NINE) == 9
    assert len(cases) == len(KERNELS) * 2 * 3
    sizes = {one.theirs: one.case_params(quick=False) for one in NINE}
    conv = {"batch": 256, "channels": 16, "size": 227, "filters": 96, "kernel": 3}
    assert conv.items() <= sizes["dnnl_nchw_conv"].items()
    assert sizes["dnnl_nchw_gelu"]["elements"] == 256 * 96 * 55 * 55
    assert sizes["dnnl_tnc_layer_norm"] == {"rows": 256 * 32 * 4, "columns": 768}
    small = {case.key("", "") for case in preset_cases([1], quick=True)}
    assert len(small) == len(KERNELS) * 2
    for whole, quick in zip(preset_cases([1], quick=False), preset_cases([1], quick=True),
                            strict=True):  # fmt: skip
        for name, value in quick.params.items():
            assert isinstance(value, str) or value <= whole.params[name]  # type: ignore[operator]


TINY = {
    "conv2d": {"batch": 2, "size": 13, "filters": 8}, "linear": {"batch": 4, "inputs": 8},
    "elementwise": {"elements": 256}, "pool": {"batch": 1, "channels": 2, "size": 9},
    "layernorm": {"rows": 4, "columns": 16}, "lstm": {"batch": 2, "time_steps": 2},
}  # fmt: skip


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Studied, ...]]:
    kernels = tuple(one._replace(quick=TINY[one.op]) for one in KERNELS)  # type: ignore[arg-type]
    monkeypatch.setattr(czaja, "KERNELS", kernels)
    return kernels


@pytest.mark.slow
def test_every_kernel_runs_and_is_counted(
    tiny: tuple[Studied, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from timeroof.study.run import Place as Here, run_cases
    from timeroof.study.store import Store

    machine = machine_of(all=PEAK, core=PEAK)
    here = Here.here(machine, "torch")
    with Store(tmp_path / "store.sqlite") as store:
        cases = preset_cases([1], quick=True)
        done = run_cases(cases, store, here, FAST, lambda text: None)
    assert [(r.status, r.error) for r in done.results] == [("done", None)] * len(cases)
    found = judged_study(done.results, machine)
    every = {one.kernel.name: one for one in utilised(found.rows)}
    assert len(every) == len(KERNELS)
    for one in every.values():
        assert [place.cache for place in sorted(one.by_place)] == ["cold", "warm"]
        for row in one.by_place.values():
            assert row.utilisation
            assert row.placed
            assert 0 < (row.attainable or 0) <= 1 + 1e-9
    # oneDNN itself says that the blocked convolution ran in its own layout.
    blocked = every["Convolution, blocked layout"]
    assert (blocked.layout or "").startswith("confirmed by oneDNN's line: src aBcd")
    plain = every["Convolution, plain layout"]
    work = [{r.contraction_flops for r in one.by_place.values()} for one in (plain, blocked)]
    assert work[0] == work[1] == {2 * 2 * 8 * 16 * 9 * 11 * 11}
    page = write_study(found, tmp_path).read_text()
    assert "Blocked layout confirmed" in page
    assert "utilisation-0" in page
    print_study(found, None)
    assert "Convolution, Winograd" in capsys.readouterr().err


def test_the_blocked_layout_is_confirmed_or_not() -> None:
    found = judged(formats="src aBcd16b, wei ABcd16b16a, dst aBcd16b")
    assert layout_of(found) == (
        "confirmed by oneDNN's line: src aBcd16b, wei ABcd16b16a, dst aBcd16b"
    )
    assert layout_of(judged(formats="src abcd, wei abcd, dst abcd")) == (
        "not confirmed: oneDNN's line says src abcd, wei abcd, dst abcd"
    )


def layout_of(found: Study) -> str | None:
    return next(one.layout for one in utilised(found.rows) if one.layout)


@pytest.mark.parametrize("size", [3, 5, 6, 9, 14])
@pytest.mark.parametrize("variant", ["winograd", "blocked", "im2col"])
def test_forms_of_a_convolution_agree(variant: str, size: int) -> None:
    torch = pytest.importorskip("torch")
    from timeroof.study.case import Setting
    from timeroof.study.kernels.conv2d import KERNEL

    params = KERNEL.base | {"batch": 2, "channels": 16, "filters": 5, "size": size, "stride": 1}
    plain, other = (
        KERNEL.prepare(Setting(params, torch.float32, "cpu", "fp32", v)) for v in ("eager", variant)
    )
    torch.manual_seed(1)
    with torch.no_grad():
        for given, taken in zip(other.weights, plain.weights, strict=False):
            given.copy_(taken)
        torch.manual_seed(2)
        own = plain.make_inputs()[0]
        torch.manual_seed(2)
        result = other.function(*other.make_inputs())
        reference = other.described().function if other.described else plain.function
        assert torch.allclose(result.to_dense(), reference(own), atol=1e-4)


def test_winograd_is_refused_for_other_filters() -> None:
    torch = pytest.importorskip("torch")
    from timeroof.study.case import Setting
    from timeroof.study.kernels.conv2d import KERNEL

    with pytest.raises(NotImplementedError, match="3×3 filters with stride 1"):
        KERNEL.prepare(Setting(KERNEL.base, torch.float32, "cpu", "fp32", "winograd"))


# What is said of it.


def machine_of(**peaks: float) -> Machine:
    ceilings = [
        Ceiling(resource=resource, rate=rate, origin="measured", scope=scope)  # type: ignore[arg-type]
        for scope, peak in peaks.items()
        for resource, rate in (("flop/fp32", peak), ("byte/dram", 20e9))
    ]
    launch = Ceiling(resource="launch", rate=1e7, origin="measured")
    return study_machine(ceilings=[*ceilings, launch])


def judged(
    machine: Machine | None = None, threads: tuple[int, ...] = (1, 2), time_s: float = 1e-2,
    flops: float = 5e8, load: float = 0.0, formats: str = "src aBcd16b",
) -> Study:  # fmt: skip
    scopes = {1: "core", 2: "all" if threads[-1] == 2 else "socket", 4: "all"}
    found = []
    for case in preset_cases(threads, quick=True):
        slower = {"blocked": 1.0, "winograd": 4.0}.get(case.variant, 2.0)
        more = {"formats": formats} if case.variant == "blocked" else {}
        clock = "cpu" if load and case.threads == 1 else "wall"
        found.append(Result(
            case=case, status="done", samples_s=[time_s * slower] * 12, launches=1.0,
            amounts={"flop/fp32": flops, "byte/dram": 1e7}, contraction_flops=flops, load=load,
            origins={"time": "measured", "flops": "counted", "bytes/dram": "modelled"},
            labels={"scope": scopes[case.threads], "placed": "here", "clock": clock, **more},
        ))  # fmt: skip
    return judged_study(found, machine or machine_of(all=2 * PEAK, core=PEAK))


def test_utilisation_and_attainable_follow_from_the_numbers() -> None:
    found = judged()
    for one in utilised(found.rows):
        for place, row in one.by_place.items():
            peak = PEAK if place.scope == "core" else 2 * PEAK
            assert row.utilisation == pytest.approx(5e8 / row.time_s / peak)
            intensity = min(1.0, 5e8 / 1e7 * 20e9 / peak)
            assert row.attainable == pytest.approx(intensity)
    finding = next(f for f in found.report.findings if f.code == czaja.CODE)
    assert finding.evidence["sentence"] == (
        "On 2 cores with warm caches convolution uses 25 % of the compute roof in the blocked"
        " layout, 12 % in the plain layout and 6.2 % by Winograd in PyTorch ops."
    )


def test_above_the_attainable_share_is_flagged() -> None:
    found = judged(time_s=1e-4, flops=5e8)
    table = utilisation_table(found.rows)
    assert table is not None
    assert all(cell and cell.above and "▲" in cell.text for cell in table.lines[0].cells)
    assert any("above the attainable share" in note for note in table.notes)
    finding = next(f for f in found.report.findings if f.code == czaja.CODE)
    assert len(finding.evidence["above_attainable"]) == len(KERNELS) * 4
    assert not any("▲" in (c.text if c else "") for line in
                   (utilisation_table(judged().rows) or table).lines for c in line.cells)  # fmt: skip


def test_beside_other_programs_the_sentence_is_of_one_core() -> None:
    finding = next(f for f in judged(load=0.8).report.findings if f.code == czaja.CODE)
    assert finding.evidence["sentence"].startswith("On 1 core with warm caches")


def test_the_papers_kernels_stand_beside_with_their_v100_shares() -> None:
    table = utilisation_table(judged().rows)
    assert table is not None
    assert [line.name.partition(" of ")[0] for line in table.lines if line.paper] == [
        "conv2d",
        "LSTM",
    ]


def test_a_study_without_the_preset_has_no_such_table() -> None:
    cases = [msgspec.structs.replace(r, threads=2) for r in preset_cases([2], quick=True)]
    plain = [
        Result(case=case, status="done", samples_s=[1e-3] * 12, amounts={"flop/fp32": 1e6})
        for case in cases
    ]
    assert utilisation_table(judged_study(plain, study_machine()).rows) is None


# Counters.


PERF = """
if args == ["--version"]:
    sys.exit(print("perf version 6.8.12"))
if value("-o") is None:
    print("1;;" + value("-e") + ";1;100.00;;", file=sys.stderr)
    sys.exit(0)
note()
recorded = json.load(open(os.path.join(here, "recorded.json")))
with open(os.path.join(here, "calls.jsonl")) as calls:
    reading = sum(1 for _ in calls)
times = os.environ["TIMEROOF_REPETITIONS"]
with open(value("-o"), "w") as out:
    out.write("# started on Wed Nov 18 2020\\n\\n")
    for name in value("-e").split(","):
        counts = recorded.get(name, {"1": 0, "2": 0})[times]
        count = counts[min(reading - 1, len(counts) - 1)] if isinstance(counts, list) else counts
        out.write(f"{count};;{name};2004518411;100.00;;\\n")
"""
# perf stat on a Xeon, a case that reads 4 MB: FP32 FMAs of 512 bits, lines that missed the L3.
FMA = "fp_arith_inst_retired.512b_packed_single"
MISSES = "longest_lat_cache.miss"


def counting(
    place: Path, monkeypatch: pytest.MonkeyPatch, lines: list[int] | int, **more: bool
) -> counters.Counting:
    recorded = {
        FMA: {"1": 1_250_000, "2": 2_250_000},
        MISSES: {"1": 10_000, "2": [10_000 + n for n in lines] if isinstance(lines, list)
                 else 10_000 + lines},
    }  # fmt: skip
    folder = install(place / "bin", "perf", PERF)
    (folder / "recorded.json").write_text(json.dumps(recorded))
    monkeypatch.setenv("PATH", f"{folder}")
    monkeypatch.setattr("timeroof.counters.perf.chip_here", lambda tool: "GenuineIntel")
    monkeypatch.setattr("timeroof.counters.chip_here", lambda tool: "GenuineIntel",
                        raising=False)  # fmt: skip
    return counters.Counting("perf", FAST, machine_of(all=PEAK), rounds=1, **more)


def cold(input_bytes: int = 4 << 20, **changes: object) -> Result:
    case = Case(kernel="elementwise", params={"op": "add", "elements": 1 << 19},
                pass_name="forward", cache="cold")  # fmt: skip
    return Result(
        case=msgspec.structs.replace(case, **changes), status="done", samples_s=[0.2] * 4,
        amounts={"flop/fp32": 7.0, "byte/dram": 6e6}, launches=1.0,
        labels={"input_bytes": str(input_bytes)},
        origins={"flops": "counted", "bytes/dram": "modelled"},
    )  # fmt: skip


def test_counters_are_two_repetitions_less_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = counting(tmp_path, monkeypatch, lines=100_000)(cold())
    assert found.amounts["flop/fp32"] == 16 * 1_000_000
    assert found.amounts["byte/dram"] == 64 * 100_000
    assert found.origins["flops"] == "measured"


def test_a_reading_below_the_inputs_size_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, enough = 1_000, 70_000
    # Each reading has runs of its own: the first two are too small.
    lines = [few] * 12 + [enough] * 100
    found = counting(tmp_path, monkeypatch, lines)(cold())
    assert found.amounts["byte/dram"] == 64 * enough


def test_a_reading_that_stays_too_small_leaves_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = counting(tmp_path, monkeypatch, lines=1_000)(cold())
    assert found.amounts["byte/dram"] == 6e6
    assert found.origins["bytes/dram"] == "modelled"
    assert found.amounts["flop/fp32"] == 16 * 1_000_000
    assert "fewer DRAM bytes than the input has" in found.labels["counters"]


def test_what_stays_in_a_cache_may_read_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = counting(tmp_path, monkeypatch, lines=10)(cold(cache="warm"))
    assert found.amounts["byte/dram"] == 640


def test_a_quick_study_counts_a_case_once_for_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = counting(tmp_path, monkeypatch, lines=100_000, once=True)
    first, second = count(cold(threads=1)), count(cold(threads=2))
    runs = len((tmp_path / "bin/calls.jsonl").read_text().splitlines())
    assert first.amounts == second.amounts
    count(cold(threads=1, cache="warm"))
    assert len((tmp_path / "bin/calls.jsonl").read_text().splitlines()) == 2 * runs


def test_clearing_caches_cancels_between_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for repetitions, runs in (("1", 3), ("2", 6)):
        monkeypatch.setenv(REPETITIONS, repetitions)
        done: list[str] = []
        counters.count_executions(
            lambda d=done: d.append("run"), 3, lambda d=done: d.append("clear")
        )  # type: ignore[misc]
        assert (done.count("run"), done.count("clear")) == (runs, 6)
        assert all(done[n - 1] == "clear" for n, what in enumerate(done) if what == "run")


# The command.


def test_a_preset_decides_what_runs() -> None:
    from timeroof.cli.study_cases import preset_cases as asked

    with pytest.raises(UsageError, match="no preset is called 'cjaza'"):
        asked("cjaza", [], quick=True)
    with pytest.raises(UsageError, match="--preset czaja and KERNEL exclude each other"):
        asked("czaja", ["KERNEL"], quick=True)
    assert asked(None, [], quick=True) == asked("paper", [], quick=True) == []
    assert {case.kernel for case in asked("czaja", [], quick=True)} == {one.op for one in KERNELS}
