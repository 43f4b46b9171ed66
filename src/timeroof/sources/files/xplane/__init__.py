"""XLA's xplane.pb, as JAX and TensorFlow write it."""

from timeroof.sources.files.xplane.reader import FORMAT

__all__ = ["FORMAT"]
