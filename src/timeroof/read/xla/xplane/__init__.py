"""XLA's xplane.pb, as JAX and TensorFlow write it."""

from timeroof.read.xla.xplane.reader import FORMAT

__all__ = ["FORMAT"]
