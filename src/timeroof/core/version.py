"""The version, in one place: it is imported before anything else, and so imports nothing."""

VERSION = "0.1.0"
