"""Bytes through the hierarchy: what must move."""
