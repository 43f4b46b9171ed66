"""Laws that counts obey whatever the sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timeroof.work import Call, Tensor, count
from timeroof.work.cost import unique_elements
from timeroof.work.families.attention import kept_pairs
from timeroof.work.families.recurrent import Recurrent, forward_cost, gradient_flops
from timeroof.work.shapes import broadcast, touched, window_count

side = st.integers(1, 40)


@given(side, side, side)
def test_doubling_the_batch_doubles_a_products_flops(m: int, k: int, n: int) -> None:
    one = count(Call.of("aten::mm", Tensor((m, k)), Tensor((k, n))))
    two = count(Call.of("aten::mm", Tensor((2 * m, k)), Tensor((k, n))))
    assert two.flops == 2 * one.flops == 4 * m * k * n
    assert one.bytes < two.bytes < 2 * one.bytes


@given(side, side, side)
def test_a_product_and_its_transpose_cost_alike(m: int, k: int, n: int) -> None:
    one = count(Call.of("aten::mm", Tensor((m, k)), Tensor((k, n))))
    other = count(Call.of("aten::mm", Tensor((n, k)), Tensor((k, m))))
    assert (one.flops, one.bytes) == (other.flops, other.bytes)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[int, int, int, int, int, int, int, int]:
    groups = draw(st.sampled_from([1, 2, 4]))
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    return (
        draw(st.integers(1, 4)), groups * draw(st.integers(1, 4)), groups * draw(st.integers(1, 4)),
        draw(st.integers(9, 20)), kernel, stride, draw(st.integers(0, 2)), groups,
    )  # fmt: skip


def conv(n: int, c: int, k: int, size: int, r: int, s: int, pad: int, g: int) -> Call:
    x, w = Tensor((n, c, size, size)), Tensor((k, c // g, r, r))
    return Call.of("aten::convolution", x, w, None, [s, s], [pad, pad], [1, 1], False, [0, 0], g)


@given(convolutions())
def test_groups_divide_a_convolutions_flops(shape: tuple[int, ...]) -> None:
    *rest, g = shape
    grouped, whole = count(conv(*rest, g)), count(conv(*rest, 1))
    assert grouped.contraction_flops * g == whole.contraction_flops


@given(convolutions())
def test_doubling_the_batch_doubles_a_convolution(shape: tuple[int, ...]) -> None:
    one, two = count(conv(*shape)), count(conv(2 * shape[0], *shape[1:]))
    assert two.contraction_flops == 2 * one.contraction_flops


@given(convolutions())
def test_a_pointwise_convolution_is_a_product(shape: tuple[int, ...]) -> None:
    n, c, k, size, *_ = shape
    found = count(conv(n, c, k, size, 1, 1, 0, 1))
    product = count(Call.of("aten::mm", Tensor((n * size * size, c)), Tensor((c, k))))
    assert found.contraction_flops == product.contraction_flops
    assert found.bytes == product.bytes


@given(convolutions())
def test_gradients_add_up(shape: tuple[int, ...]) -> None:
    n, c, k, size, r, s, pad, g = shape
    out = window_count(size, r, s, pad, 1)
    x, w, grad = Tensor((n, c, size, size)), Tensor((k, c // g, r, r)), Tensor((n, k, out, out))

    def backward(*mask: bool) -> float:
        tail = [[k], [s, s], [pad, pad], [1, 1], False, [0, 0], g, list(mask)]
        return count(Call.of("aten::convolution_backward", grad, x, w, *tail)).flops or 0.0

    apart = [
        backward(True, False, False),
        backward(False, True, False),
        backward(False, False, True),
    ]
    assert backward(True, True, True) == sum(apart)
    assert apart[0] == apart[1] == count(conv(*shape)).contraction_flops


@given(side, side, st.integers(1, 4), st.integers(1, 2), st.integers(0, 8))
def test_layers_and_directions(
    hidden: int, features: int, layers: int, directions: int, proj: int
) -> None:
    sizes = {
        "rows": 12,
        "batch": 3,
        "features": features,
        "hidden": hidden,
        "projection": min(proj, hidden - 1),
    }
    r = Recurrent(kind="lstm", layers=layers, directions=directions, **sizes)
    one = Recurrent(kind="lstm", **sizes)
    state = one.state
    first = sum(one.parts().values()) * directions
    later = 2 * 12 * (4 * hidden * (state * directions + state) + hidden * one.projection)
    assert forward_cost(r).contraction_flops == first + later * directions * (layers - 1)
    assert sum(gradient_flops(r).values()) == 2 * forward_cost(r).contraction_flops


@given(st.integers(0, 50), st.integers(0, 50))
def test_kept_pairs_are_counted_by_hand(queries: int, keys: int) -> None:
    by_hand = sum(1 for i in range(queries) for j in range(keys) if j <= i)
    assert kept_pairs(queries, keys, True) == by_hand


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 5), st.integers(1, 3))
def test_touched_places_are_at_least_those_that_are(
    size: int, kernel: int, stride: int, dilation: int
) -> None:
    windows = window_count(size, kernel, stride, 0, dilation)
    places = {i * stride + j * dilation for i in range(windows) for j in range(kernel)}
    found = touched(size, windows, kernel, stride, dilation)
    assert len(places) <= found <= size
    if dilation == 1:
        assert found == len(places)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 7)), max_size=3))
def test_unique_elements_never_more_than_there_are(dims: list[tuple[int, int]]) -> None:
    shape, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    places = {0}
    for n, s in dims:
        places = {p + i * s for p in places for i in range(n)}
    found = unique_elements(Tensor(shape, "fp32", strides))
    assert len(places) <= found <= Tensor(shape).count


@given(st.lists(st.integers(1, 5), max_size=4))
def test_broadcast_with_itself_is_the_identity(shape: list[int]) -> None:
    assert broadcast(shape, shape) == tuple(shape) == broadcast(shape, [1] * len(shape))


@given(side, side)
def test_attention_doubles_with_heads_and_quadruples_with_length(length: int, depth: int) -> None:
    def flops(heads: int, n: int) -> float:
        q = Tensor((2, heads, n, depth))
        name = "aten::_scaled_dot_product_flash_attention_for_cpu"
        return count(Call.of(name, q, q, q, 0.0, False)).flops or 0.0

    assert flops(4, length) == 2 * flops(2, length)
    assert flops(2, 2 * length) == 4 * flops(2, length)
