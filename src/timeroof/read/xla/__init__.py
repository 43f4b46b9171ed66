"""XLA's files: xplane."""
