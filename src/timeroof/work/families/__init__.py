"""One file per family of ops: its shape rules and its formulas, forward and backward."""
