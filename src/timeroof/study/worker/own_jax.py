"""A function of the user's in JAX: what it returned as a function of arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from timeroof.study import kernel as k
from timeroof.study.worker import own
from timeroof.study.worker.jax_kernels import Made
from timeroof.study.worker.own import OwnError

PASSES = {
    k.FORWARD: "what make returned, called once and waited for",
    k.BACKWARD: "the gradients of all floating-point inputs from a given gradient of the results;"
    " the forward pass ran before and is not in the time",
}


def made_of(given: own.Made, pass_name: str, *, eager: bool) -> Made:
    """What a user's function returned: a function of its arrays. What is no array is bound, so that
    compiling takes it for a constant."""
    if eager and pass_name == k.FORWARD:
        return Made(lambda weights, *x: given.function(*x, **given.named), (), given.inputs)
    jax = import_module("jax")
    tree: Any = jax.tree_util
    leaves, shape = tree.tree_flatten((given.inputs, dict(given.named)))
    moving = [n for n, leaf in enumerate(leaves) if _is_moving(leaf, pass_name)]
    if not moving and pass_name != k.FORWARD:
        raise OwnError(
            "it has no floating-point inputs, so there is no gradient",
            "return (function, inputs) with arrays as inputs",
        )

    def run(weights: tuple[Any, ...], *arrays: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(moving, arrays, strict=True):
            filled[place] = array
        inputs, named = tree.tree_unflatten(shape, filled)
        return given.function(*inputs, **named)

    arrays = tuple(jax.numpy.asarray(leaves[n]) for n in moving)
    if pass_name == k.FORWARD:
        return Made(run, (), arrays)
    return Made(_floats_of(run, tree), (), arrays)


def _is_moving(leaf: Any, pass_name: str) -> bool:
    jnp = import_module("jax.numpy")
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        return False
    return pass_name == k.FORWARD or bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def _floats_of(run: Callable[..., Any], tree: Any) -> Callable[..., Any]:
    """The results that have a gradient, as one flat list."""
    jnp = import_module("jax.numpy")

    def floats(weights: tuple[Any, ...], *arrays: Any) -> list[Any]:
        found = tree.tree_leaves(run(weights, *arrays))
        return [x for x in found if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating)]

    return floats
