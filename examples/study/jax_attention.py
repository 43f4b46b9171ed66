"""Attention as a JAX function, for `timeroof study examples/study/jax_attention.py:make`.

timeroof study examples/study/jax_attention.py:make --set sequence=16,64,256
"""

import jax
import jax.numpy as jnp


def attention(q, k, v):
    """Softmax of the products of queries and keys, times the values."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


def make(batch: int = 2, sequence: int = 64, heads: int = 4, size: int = 32):
    """A function and its inputs."""
    keys = jax.random.split(jax.random.key(0), 3)
    return attention, [jax.random.normal(key, (batch, sequence, heads, size)) for key in keys]
