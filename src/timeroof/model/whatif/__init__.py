"""The same work on another machine."""
