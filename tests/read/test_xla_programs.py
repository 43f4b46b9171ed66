"""XLA files of GPUs, TPUs and CPUs: what their programs computed and moved, by hand calculation."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import timeroof
from tests.hlo_messages import (
    PRED,
    computation,
    contracted,
    hlo,
    instruction,
    module,
    parameter,
    shape,
    tuple_of,
)  # fmt: skip
from tests.read.test_xplane import event, field, line, plane
from tests.read.test_xplane_hlo import metadata, program

FOUR = field(49, b"".join(field(1, n) for n in range(4)))


def loaded(folder: Path, *parts: bytes) -> timeroof.Report:
    (folder / "x.xplane.pb").write_bytes(b"".join(parts))
    return timeroof.load(folder / "x.xplane.pb")


def test_collectives_of_gpus_are_known_by_what_they_send(tmp_path: Path) -> None:
    one, whole = shape(64, 8), shape(256, 8)
    compiled = hlo(
        module(
            1,
            computation(
                1, 4, parameter(1, 0, one), parameter(2, 1, one),
                instruction(3, "all-gather-start.1", "all-gather-start", tuple_of(one, whole), (1,), FOUR),
                instruction(4, "rs-start", "async-start", tuple_of(one, shape(16, 8)), (2,), called=(2,)),
            ),
            computation(
                2, 11, parameter(10, 0, one),
                instruction(11, "rs.1", "reduce-scatter", shape(16, 8), (10,), FOUR),
            ),
        )
    )  # fmt: skip
    events = [
        event(1, 0, 1000, hlo_op="all-gather-start.1", hlo_module="jit_f"),
        event(2, 2000, 1000, hlo_op="rs-start", hlo_module="jit_f"),
    ]
    facts = {"device_vendor": "Nvidia", "compute_cap_major": 9, "compute_cap_minor": 0,
             "memory_size": 80 * 10**9, "core_count": 132}  # fmt: skip
    names = ["ncclDevKernel_AllGather_RING_LL", "ncclDevKernel_ReduceScatter_Sum_f32"]
    device = plane("/device:GPU:0", names, [line("Stream #9", 5, events)], **facts)  # type: ignore[arg-type]
    report = loaded(tmp_path, device, metadata("jit_f(7)", compiled))
    rows = {row["op"]: row for row in report.rows.iter_rows(named=True)}
    gather, scatter = rows["all-gather-start.1"], rows["rs-start"]
    assert gather["kind"] == scatter["kind"] == "collective"
    assert gather["label.collective"] == "all-gather-start"
    links = [c for c in report.rows.columns if c.startswith("link/")]
    assert gather[links[0]] == 256 * 8 * 4 * 3 / 4
    assert scatter[links[0]] == 64 * 8 * 4 * 3 / 4
    assert scatter["flop/fp32"] == 64 * 8 * 3 / 4
    assert report.totals.known_time_share == 1


def test_a_tpus_loop_and_waiting_are_no_unknown_work(tmp_path: Path) -> None:
    square = shape(128, 128)
    compiled = hlo(
        module(
            1,
            computation(
                1, 4, parameter(1, 0, square),
                instruction(2, "while.1", "while", square, (1,), called=(2, 3)),
                instruction(3, "ag-start", "all-gather-start", tuple_of(square, shape(512, 128)), (2,), FOUR),
                instruction(4, "ag-done", "all-gather-done", shape(512, 128), (3,)),
            ),
            computation(
                2, 11, parameter(10, 0, square),
                instruction(11, "dot.1", "dot", square, (10, 10), contracted(1, 0)),
            ),
            computation(3, 21, parameter(20, 0, square), instruction(21, "go", "constant", shape(kind=PRED))),
        )
    )  # fmt: skip
    names = [
        "%while.1 = f32[128,128] while(%p1)",
        "%dot.1 = f32[128,128] dot(%p10, %p10)",
        "%ag-start = (f32[128,128], f32[512,128]) all-gather-start(%while.1)",
        "%ag-done = f32[512,128] all-gather-done(%ag-start)",
        "jit_f(7)",
    ]
    ops = [event(1, 0, 10_000), *(event(2, at, 2_000) for at in (500, 3000, 6000)),
           event(3, 11_000, 500), event(4, 12_000, 8_000)]  # fmt: skip
    lines = [line("XLA Ops", 5, ops), line("XLA Modules", 5, [event(5, 0, 20_000)])]
    report = loaded(tmp_path, plane("/device:TPU:0", names, lines), metadata("jit_f(7)", compiled))
    rows = {row["op"]: row for row in report.rows.iter_rows(named=True)}
    # As often as it ran: nobody says how long the loop is.
    assert rows["dot.1"]["contraction_flops"] == 3 * 2 * 128**3
    assert rows["while.1"]["time_s"] == pytest.approx(4e-9)
    assert rows["while.1"]["flop/fp32"] == rows["while.1"]["byte/dram"] == 0
    assert rows["ag-done"]["kind"] == "collective"
    assert report.totals.known_time_share == 1


def test_programs_that_are_cut_or_changed_never_stop_the_reading(tmp_path: Path) -> None:
    host = plane("/host:CPU", ["dot"], [
        line("t", 5, [event(1, 0, 1000, hlo_op="dot.1", hlo_module="jit_f")])
    ])  # fmt: skip
    whole, source = program(), random.Random(7)
    for number in range(60):
        data = bytearray(whole)
        if number % 2:
            del data[source.randrange(len(data)) :]
        else:
            for _ in range(source.choice((1, 2, 8))):
                data[source.randrange(len(data))] = source.randrange(256)
        report = loaded(tmp_path, host, metadata("jit_f(1)", bytes(data)))
        flops = report.rows["contraction_flops"][0] if report.rows.height else None
        assert flops is None or flops >= 0
        # A program that is cut is left out and said so; one without a name is another program.
        if number % 2 and data:
            assert flops is None


PROGRAMS = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import glob, shutil
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P

lax, N = jax.lax, 64
mesh = Mesh(np.array(jax.devices()), ("d",))
x = jnp.ones((N, N)) / N

def sharded(x):
    def part(x):
        return lax.psum(lax.all_gather(x, "d", tiled=True) @ x.T, "d")
    return jax.shard_map(part, mesh=mesh, in_specs=P("d", None), out_specs=P(None, None), check_vma=False)(x)

def update(big, row, at):
    return lax.dynamic_update_slice(big, row, (at, 0))

def images(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4)

again = jax.checkpoint(lambda y: jnp.tanh(y @ x) @ x)
programs = {
    "scan": (lambda x: lax.scan(lambda c, _: (c @ x, None), x, None, length=6)[0], (x,)),
    "data": (lambda x: lax.while_loop(lambda s: s[0] < s[2], lambda s: (s[0] + 1, s[1] @ s[1], s[2]), (0, x, x.sum().astype(int) - 59))[1], (x,)),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, lambda y: y @ y, lambda y: y @ y @ y, x), (x,)),
    "remat": (jax.grad(lambda y: again(y).sum()), (x,)),
    "bf16": (lambda x: x @ x, (x.astype(jnp.bfloat16),)),
    "int8": (lambda x: lax.dot(x, x, preferred_element_type=jnp.int32), (x.astype(jnp.int8),)),
    "grouped": (images, (jnp.ones((2, 10, 10, 16)), jnp.ones((3, 3, 4, 8)))),
    "sharded": (sharded, (x,)),
    "gather": (lambda t, i: t[i], (jnp.ones((10000, N)), jnp.arange(8))),
    "scatter": (lambda t, i: t.at[i].add(1.0), (jnp.ones((10000, N)), jnp.arange(8))),
    "update": (update, (jnp.ones((10000, N)), jnp.ones((1, N)), 3)),
}
options = jax.profiler.ProfileOptions()
options.python_tracer_level = 0
for name, (function, given) in programs.items():
    donated = (0,) if name in ("scatter", "update") else ()
    run = jax.jit(function, donate_argnums=donated)
    for step in range(2):
        args = (given[0] + 0, *given[1:]) if donated else given
        jax.block_until_ready(args)
        if step:
            jax.profiler.start_trace(name, profiler_options=options)
        jax.block_until_ready(run(*args))
    jax.profiler.stop_trace()
    shutil.move(glob.glob(f"{name}/**/*.xplane.pb", recursive=True)[0], f"{name}.xplane.pb")
"""
CUBE = 2.0 * 64**3
# Products by hand; the most bytes where only a part of an array is touched.
EXPECTED: dict[str, tuple[float, float | None]] = {
    "scan": (6 * CUBE, None), "data": (5 * CUBE, None), "cond": (CUBE, None),
    "remat": (3 * CUBE, None), "bf16": (CUBE, None), "int8": (CUBE, None),
    "grouped": (2.0 * 2 * 8 * 8 * 8 * 4 * 9, None),
    # Four devices, each all rows times its own sixteen.
    "sharded": (4 * 2.0 * 64 * 64 * 16, None),
    "gather": (0, 8 * 64 * 4 * 3), "scatter": (0, 8 * 64 * 4 * 8), "update": (0, 64 * 4 * 4),
}  # fmt: skip


@pytest.mark.slow
def test_programs_that_jax_recorded_here(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    (tmp_path / "programs.py").write_text(PROGRAMS, encoding="utf-8")
    subprocess.run([sys.executable, "programs.py"], cwd=tmp_path, check=True, timeout=300)
    for name, (products, most_bytes) in EXPECTED.items():
        report = timeroof.load(tmp_path / f"{name}.xplane.pb")
        assert report.totals.known_time_share == 1, name
        assert report.totals.contraction_flops == products, name
        if most_bytes is not None:
            assert report.totals.bytes["dram"] <= most_bytes, name
        sources = report.rows["label.source"].drop_nulls().to_list()
        assert any(s.startswith("programs.py:") for s in sources), name
    backward = timeroof.load(tmp_path / "remat.xplane.pb").rows
    assert "backward" in set(backward["phase"].drop_nulls())
    shared = timeroof.load(tmp_path / "sharded.xplane.pb").rows
    collectives = shared.filter(pl.col("kind") == "collective")
    assert set(collectives["label.group_size"]) == {"4"}
