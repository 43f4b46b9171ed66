"""PyTorch ExecutionTraces, which lend shapes to Kineto traces, and Chakra's converted graphs."""

from __future__ import annotations

import math
import re
from typing import Any

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Input, short_name
from timeroof.read.torch.execution_nodes import (
    document,
    looks_like_graph,
    looks_like_nodes,
    nodes_of,
)

_US = 1e-6
# Chakra's NodeType of collectives.
_COLLECTIVES = (5, 6, 7)
_COMMUNICATES = re.compile(r"nccl|rccl", re.IGNORECASE)


class ExecutionTrace:
    """ExecutionTraces (refused alone: they have no times) and graphs with a runtime per node."""

    name = "execution-trace"
    title = "PyTorch ExecutionTrace and Chakra graphs"

    def sniff(self, found: Input) -> bool:
        """A list of nodes with a schema, or a workload graph."""
        if len(found.entries) != 1:
            return False
        head = found.only.head.lstrip(b"\xef\xbb\xbf \r\n\t")
        return head[:1] == b"{" and (looks_like_nodes(head) or looks_like_graph(head))

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The kernels of a converted graph; an ExecutionTrace alone is refused with a reason."""
        entry = found.only
        options.progress("reading nodes", 0.1)
        whole = document(entry)
        graph = whole.get("workload_graph")
        if isinstance(graph, list):
            return _graph_profile(graph, entry.name)
        count = len(nodes_of(whole))
        raise InputError(
            f"is an ExecutionTrace of {count} ops (schema {whole.get('schema')}) and has no"
            " durations",
            where=entry.name,
            advice="read it together with the Kineto trace of the same run, to which it lends"
            " shapes",
        )


def _graph_profile(graph: list[Any], where: str) -> Profile:
    rows: dict[tuple[str, str], list[float]] = {}
    for node in graph:
        found = _graph_node(node)
        if found is not None:
            row = rows.setdefault(found[0], [0.0, 0.0])
            row[0] += 1
            row[1] += found[1]
    if not rows:
        raise InputError(
            "is a workload graph without a device node that has a runtime",
            where=where,
            advice="convert it again with the Kineto trace of the same run",
        )
    table = pl.DataFrame(
        [
            {"kind": kind, "name": name, "calls": calls, "time_s": us * _US}
            for (kind, name), (calls, us) in rows.items()
        ]
    )
    return Profile.of(
        table.with_columns(pl.lit("measured").alias("origin.time")),
        Source(tool="Chakra", files=[SourceFile(name=short_name(where))]),
        notes=(
            "a converted Chakra graph: runtimes per node and no timestamps, so idle time is"
            " unknown; it may come from a simulator",
        ),
    )


def _graph_node(node: Any) -> tuple[tuple[str, str], float] | None:
    """Kind, name and microseconds of a node that ran on a device."""
    if not isinstance(node, dict) or node.get("is_cpu_op") is not False:
        return None
    name, runtime = node.get("Name"), node.get("runtime")
    if not isinstance(name, str) or isinstance(runtime, bool):
        return None
    if not isinstance(runtime, int | float) or not 0 <= runtime < math.inf:
        return None
    talks = node.get("NodeType") in _COLLECTIVES or _COMMUNICATES.search(name)
    return ("collective" if talks else "kernel", name), float(runtime)


FORMAT = ExecutionTrace()
