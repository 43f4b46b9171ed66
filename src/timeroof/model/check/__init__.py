"""A gate for CI: limits on a run, and whether they hold."""
