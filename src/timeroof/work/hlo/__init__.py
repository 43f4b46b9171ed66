"""HLO, XLA's compiled programs, as a kind of work: what each instruction computes and moves.

Nothing is imported here: formulas need the opcodes of every file, only XLA's need the rest.
"""
