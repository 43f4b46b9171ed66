"""One rule per file, named after the pattern that it looks for."""
