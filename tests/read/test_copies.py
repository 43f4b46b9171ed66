"""Copies by the names that profilers give them: which way they go, and what that moves."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import timeroof
from tests.kineto_events import document, event, launch, op
from timeroof.read.events import copy_bytes

SIZE = 4096.0


@pytest.mark.parametrize(
    ("name", "link", "dram"),
    [
        ("Memcpy HtoD (Pageable -> Device)", SIZE, SIZE),
        ("[CUDA memcpy Device-to-Host]", SIZE, SIZE),
        ("CopyHostToDevice", SIZE, SIZE),
        ("device_to_host", SIZE, SIZE),
        # Level Zero: M is the host's memory.
        ("zeCommandListAppendMemoryCopy(M2D)", SIZE, SIZE),
        ("MemcpyD2H", SIZE, SIZE),
        ("[CUDA memcpy HtoA]", SIZE, SIZE),
        ("Memcpy DtoD (Device -> Device)", 0.0, 2 * SIZE),
        ("CopyDeviceToDevice", 0.0, 2 * SIZE),
        ("Memcpy HtoH (Pageable -> Pinned)", 0.0, 0.0),
        ("FillBuffer", 0.0, SIZE),
        # Nobody knows, and unknown is not 0.
        ("Memcpy PtoP (Device -> Device)", None, SIZE),
        ("Copy", None, None),
    ],
)
def test_names_tell_the_way(name: str, link: float | None, dram: float | None) -> None:
    table = pl.DataFrame({"name": [name], "size": [SIZE]})
    moved = table.select(*(e.alias(c) for e, c in zip(copy_bytes(pl.col("size"), pl.col("name")), "ld", strict=True)))  # fmt: skip
    assert moved.row(0) == (link, dram)


@pytest.mark.parametrize(
    ("name", "limiter"), [("CopyHostToDevice", "link/pcie"), ("Copy", "unknown")]
)
def test_a_copy_of_roctracer_is_bound_by_its_link(tmp_path: Path, name: str, limiter: str) -> None:
    # HIP says the size at the call.
    call = launch(1, 0, name="hipMemcpyWithStream")
    call["args"]["size"] = 10**7
    copy = event("gpu_memcpy", name, 10, 500, 3, 2, device=2, stream=3, correlation=1)
    events = [op("aten::copy_", 0, 20), call, copy]
    device = [{"id": 2, "name": "AMD Instinct MI300X"}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document(events, deviceProperties=device)))
    row = timeroof.load(path).rows.row(0, named=True)
    assert row["limiter"] == limiter
    assert row["link/pcie"] == (10**7 if limiter != "unknown" else None)


def test_a_link_without_a_ceiling_may_explain_a_copy(tmp_path: Path) -> None:
    """A GH200 has no PCI Express to its host: 10 MB in 20 µs is no latency."""
    rows = [
        ("Start (ns)", "Duration (ns)", "CorrId", "Bytes (MB)", "Device", "Strm", "Name"),
        ("1000", "50000", "1", "", "NVIDIA GH200 480GB (0)", "7", "sm90_xmma_gemm_f16"),
        ("61000", "20000", "2", "10.0", "NVIDIA GH200 480GB (0)", "7", "[CUDA memcpy Host-to-Device]"),
        ("90000", "30000", "3", "10.0", "NVIDIA GH200 480GB (0)", "7", "[CUDA memcpy Peer-to-Peer]"),
    ]  # fmt: skip
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(",".join(row) for row in rows))
    report = timeroof.load(path)
    limits = dict(report.rows.select("name", "limiter").iter_rows())
    assert limits["Memcpy Host-to-Device"] == limits["Memcpy Peer-to-Peer"] == "unknown"
    peer = report.why(report.rows.row(by_predicate=pl.col("name") == "Memcpy Peer-to-Peer")[0])
    assert "between which memories" in (peer.line("link/pcie").unknown or "")
    assert "What the link takes is unknown" in str(peer)
    # Their bytes are known all the same.
    said = [f.title for f in report.findings if f.code == "TR902"]
    assert all("50.0 µs" in title for title in said)
