"""HLO that is written here byte by byte: what it costs, and that hostile bytes do no harm."""

from __future__ import annotations

import pytest

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
from tests.read.test_xplane import field
from timeroof.core.wire import BrokenMessageError
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.names import source_of
from timeroof.work.hlo.proto import read_hlo


def program(*computations: bytes, entry: int = 1, frames: bytes = b"") -> Program:
    return Program(read_hlo(hlo(module(entry, *computations, frames=frames))))


def test_a_dot_costs_two_flops_per_product_and_moves_its_operands_once() -> None:
    found = program(
        computation(
            1, 3, parameter(1, 0, shape(4, 8)), parameter(2, 1, shape(8, 16)),
            instruction(3, "dot.1", "dot", shape(4, 16), (1, 2), contracted(1, 0)),
        )
    )  # fmt: skip
    cost = found.cost(found.instructions["dot.1"])
    assert cost.contraction == {"fp32": 2 * 4 * 8 * 16}
    assert (cost.bytes_read, cost.bytes_written) == (4 * (4 * 8 + 8 * 16), 4 * 4 * 16)


def square(number: int, root: int, name: str, *more: bytes, opcode: str = "dot") -> bytes:
    own = instruction(root, name, opcode, shape(8, 8), (root - 1, root - 1), *more)
    return computation(number, root, parameter(root - 1, 0, shape(8, 8)), own)


def loop(config: str) -> Program:
    return program(
        computation(
            1, 2, parameter(1, 0, shape(8, 8)),
            instruction(2, "while.1", "while", shape(8, 8), (1,), field(43, config), called=(2, 3)),
        ),
        square(2, 11, "dot.1", contracted(1, 0)),
        computation(3, 21, parameter(20, 0, shape(8, 8)), instruction(21, "go", "constant", shape(kind=PRED))),
    )  # fmt: skip


def test_a_loop_counts_as_often_as_it_is_known_to_run() -> None:
    total = loop('{"known_trip_count":{"n":"16"}}').total()
    assert total.cost.contraction_flops == 16 * 2 * 8**3
    assert total.endless == ()


def test_a_loop_of_unknown_length_is_named() -> None:
    total = loop("").total()
    assert total.endless == ("while.1",)
    assert total.cost.contraction_flops == 2 * 8**3


def test_a_fusion_reads_only_the_slices_that_it_takes_and_writes_only_its_update() -> None:
    inner = computation(
        2, 13, parameter(10, 0, shape(100, 8)), parameter(11, 1, shape()),
        instruction(12, "ds", "dynamic-slice", shape(1, 8), (10, 11)),
        instruction(13, "dus", "dynamic-update-slice", shape(100, 8), (10, 12, 11)),
    )  # fmt: skip
    outer = computation(
        1, 3, parameter(1, 0, shape(100, 8)), parameter(2, 1, shape()),
        instruction(3, "fusion.1", "fusion", shape(100, 8), (1, 2), called=(2,)),
    )  # fmt: skip
    found = program(outer, inner)
    cost = found.cost(found.instructions["fusion.1"])
    assert (cost.bytes_read, cost.bytes_written) == (8 * 4 + 4, 8 * 4)


def custom(target: str, config: str, *operands: bytes, result: bytes) -> Program:
    given = [parameter(n, n, of) for n, of in enumerate(operands, 1)]
    call = instruction(
        99, "call.1", "custom-call", result, tuple(range(1, len(operands) + 1)),
        field(28, target), field(43, config),
    )  # fmt: skip
    return program(computation(1, 99, *given, call))


TE = (
    "{attn_heads = 4 : i64, input_batch = 2 : i64, q_max_seqlen = 64 : i64,"
    " kv_max_seqlen = 64 : i64, head_dim = 32 : i64, mask_type = %d : i64}"
)


@pytest.mark.parametrize(
    ("target", "mask", "products", "pairs"),
    [
        ("te_fused_attn_forward_ffi", 0, 2, 64 * 64),
        ("te_fused_attn_forward_ffi", 2, 2, 64 * 65 // 2),
        ("te_fused_attn_backward_ffi", 0, 5, 64 * 64),
    ],
)
def test_attention_of_transformer_engine(target: str, mask: int, products: int, pairs: int) -> None:
    q = shape(2, 64, 4, 32)
    found = custom(target, TE % mask, q, q, q, result=tuple_of(q, shape(2, 4, 64, 1)))
    cost = found.cost(found.instructions["call.1"])
    assert cost.contraction_flops == 2 * products * 2 * 4 * 32 * pairs


def test_attention_without_settings_is_counted_by_its_shapes() -> None:
    q, k = shape(2, 64, 4, 32), shape(2, 16, 4, 32)
    found = custom("__cudnn$fmhaSoftmax", "", q, k, k, result=q)
    assert found.cost(found.instructions["call.1"]).contraction_flops == 4 * 2 * 4 * 64 * 16 * 32


def test_a_product_of_a_library_without_dimensions_is_solved_from_its_sizes() -> None:
    found = custom("te_gemm_ffi", "", shape(4, 8), shape(8, 16), result=shape(4, 16))
    assert found.cost(found.instructions["call.1"]).contraction_flops == 2 * 4 * 8 * 16


@pytest.mark.parametrize(
    ("target", "operands", "flops"),
    [
        ("lapack_sgetrf_ffi", [shape(2, 6, 4)], 2 * (6 * 16 - 64 / 3)),
        ("lapack_sgeqrf_ffi", [shape(8, 4)], 2 * 8 * 16 - 2 * 64 / 3),
        ("__cusolver$cholesky", [shape(6, 6)], 6**3 / 3),
        ("__cublas$triangularSolve", [shape(4, 4), shape(4, 6)], 4 * 4 * 6),
        ("te_grouped_gemm_ffi", [shape(12, 8), shape(3, 8, 6)], 2 * 12 * 8 * 6),
        ("__gpu$TopK", [shape(4, 6)], 0),
        ("xla.gpu.ext.cub_sort_keys", [shape(4, 6)], 0),
        ("te_norm_forward_ffi", [shape(4, 6)], 8 * 24),
        ("__onednn$softmax", [shape(4, 6)], 5 * 24),
    ],
)
def test_custom_calls_of_libraries(target: str, operands: list[bytes], flops: float) -> None:
    result = shape(4, 6) if target != "te_grouped_gemm_ffi" else shape(12, 6)
    found = custom(target, "", *operands, result=result)
    assert found.cost(found.instructions["call.1"]).flops == pytest.approx(flops)


@pytest.mark.parametrize(
    "target",
    ["xla_ffi_python_cpu_callback", "triton_kernel_call", "tpu_custom_call", "lapack_sgesdd_ffi"],
)
def test_what_nobody_can_count_is_unknown(target: str) -> None:
    found = custom(target, "", shape(4, 4), result=shape(4, 4))
    assert found.cost(found.instructions["call.1"]).flops is None


@pytest.mark.parametrize("given", ["parameter", "made inside"])
def test_a_fused_scatter_writes_its_updates_where_the_array_is_there_already(given: str) -> None:
    target = (
        parameter(10, 0, shape(1000, 8))
        if given == "parameter"
        else instruction(10, "zero", "broadcast", shape(1000, 8), (14,))
    )
    inner = computation(
        2, 13, target, parameter(11, 1, shape(4, kind=4)), parameter(12, 2, shape(4, 8)),
        instruction(14, "nothing", "constant", shape()),
        instruction(13, "scatter.1", "scatter", shape(1000, 8), (10, 11, 12), called=(3,)),
    )  # fmt: skip
    outer = computation(
        1, 4, parameter(1, 0, shape(1000, 8)), parameter(2, 1, shape(4, kind=4)),
        parameter(3, 2, shape(4, 8)),
        instruction(4, "fusion.1", "fusion", shape(1000, 8), (1, 2, 3), called=(2,)),
    )  # fmt: skip
    adder = computation(3, 22, parameter(20, 0, shape()), parameter(21, 1, shape()),
                        instruction(22, "add", "add", shape(), (20, 21)))  # fmt: skip
    found = program(outer, inner, adder)
    cost = found.cost(found.instructions["fusion.1"])
    assert cost.other == {"fp32": 32}
    assert cost.bytes_written == (4 * 8 * 4 if given == "parameter" else 1000 * 8 * 4)


def started(opcode: str, result: bytes, *more: bytes, devices: int = 0) -> Program:
    body = module(
        1,
        computation(
            1, 2, parameter(1, 0, shape(64, 8)), instruction(2, "start", opcode, result, (1,), *more)
        ),
    )  # fmt: skip
    assigned = field(15, field(1, 1) + field(2, devices)) if devices else b""
    return Program(read_hlo(hlo(body + assigned)))


def test_collectives_that_are_started_count_what_they_send_and_receive() -> None:
    groups = field(49, b"".join(field(1, n) for n in range(4)))
    one, whole = shape(64, 8), shape(256, 8)
    gather = started("all-gather-start", tuple_of(one, whole), groups)
    cost = gather.cost(gather.instructions["start"])
    assert cost.link_bytes == 256 * 8 * 4 * 3 / 4
    assert (cost.bytes_read, cost.bytes_written) == (64 * 8 * 4, 256 * 8 * 4)
    context = shape(kind=8)
    permute = started("collective-permute-start", tuple_of(one, one, context, context))
    assert permute.cost(permute.instructions["start"]).bytes_written == 64 * 8 * 4
    # No groups: all devices that the program was compiled for.
    reduce = started("all-reduce-start", one, devices=8)
    cost = reduce.cost(reduce.instructions["start"])
    assert cost.link_bytes == 64 * 8 * 4 * 2 * 7 / 8
    assert cost.other == {"fp32": 64 * 8 * 7 / 8}
    assert started("all-reduce", one).cost(reduce.instructions["start"]).link_bytes is None


def test_a_collective_inside_of_an_asynchronous_start_is_one() -> None:
    groups = field(49, field(1, 0) + field(1, 1))
    found = program(
        computation(
            1, 2, parameter(1, 0, shape(8, 8)),
            instruction(2, "rs-start", "async-start", tuple_of(shape(8, 8), shape(4, 8)), (1,), called=(2,)),
        ),
        computation(
            2, 11, parameter(10, 0, shape(8, 8)),
            instruction(11, "rs", "reduce-scatter", shape(4, 8), (10,), groups),
        ),
    )  # fmt: skip
    start = found.instructions["rs-start"]
    assert found.collective(start) is found.instructions["rs"]
    assert found.cost(start).link_bytes == 8 * 8 * 4 / 2


def test_an_unknown_custom_call_is_unknown_and_says_its_name() -> None:
    found = custom("my_kernel", "", shape(4), result=shape(4))
    cost = found.cost(found.instructions["call.1"])
    assert cost.flops is None
    assert cost.bytes == 32
    assert cost.unknown == "the custom call my_kernel"


def test_scratch_memory_of_a_library_is_no_result() -> None:
    u8 = shape(1000, kind=6)
    found = custom("te_gemm_ffi", "", shape(4, 8), shape(8, 16), result=tuple_of(shape(4, 16), u8))
    assert found.cost(found.instructions["call.1"]).bytes_written == 4 * 4 * 16


def test_a_kernel_in_a_captured_graph_is_found_by_its_own_name() -> None:
    found = program(
        computation(
            1, 2, parameter(1, 0, shape(8, 8)),
            instruction(2, "call.1", "call", shape(8, 8), (1,), called=(2,)),
        ),
        square(2, 11, "dot.1", contracted(1, 0)),
    )  # fmt: skip
    assert found.find("call.1") is found.instructions["call.1"]
    assert found.find("call.1", "dot_1") is found.instructions["dot.1"]


def test_the_programs_own_line_is_the_first_outside_of_libraries() -> None:
    frames = field(1, "/x/site-packages/flax/linear.py") + field(1, "/home/me/train.py")
    frames += field(3, field(1, 1) + field(3, 700)) + field(3, field(1, 2) + field(3, 12))
    frames += field(4, field(1, 1) + field(2, 2)) + field(4, field(1, 2))
    one = instruction(2, "neg", "negate", shape(4), (1,), frame=1)
    found = program(computation(1, 2, parameter(1, 0, shape(4)), one), frames=frames)
    assert source_of(found.module, found.instructions["neg"]) == "train.py:12"


def test_computations_that_call_themselves_end() -> None:
    found = program(
        computation(1, 2, parameter(1, 0, shape(8)), instruction(2, "f", "fusion", shape(8), (1,), called=(1,)))
    )  # fmt: skip
    assert found.cost(found.instructions["f"]).unknown
    called = program(
        computation(1, 2, parameter(1, 0, shape(8)), instruction(2, "c", "call", shape(8), (1,), called=(1,)))
    )  # fmt: skip
    assert called.total().cost.unknown


def test_dimensions_that_are_not_there_are_a_reason() -> None:
    found = program(
        computation(
            1, 3, parameter(1, 0, shape(4, 8)), parameter(2, 1, shape(8, 16)),
            instruction(3, "dot.1", "dot", shape(4, 16), (1, 2), contracted(9, 0)),
        )
    )  # fmt: skip
    assert "dimension that is not there" in str(found.cost(found.instructions["dot.1"]).unknown)


def test_bytes_that_are_cut_are_refused() -> None:
    whole = hlo(module(1, computation(1, 1, parameter(1, 0, shape(4)))))
    with pytest.raises(BrokenMessageError):
        read_hlo(whole[:-3])
