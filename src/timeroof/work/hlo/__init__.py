"""HLO, XLA's compiled programs, as a kind of work: what each instruction computes and moves."""

from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import Instruction, Module, Shape, read_hlo, read_module

__all__ = ["Instruction", "Module", "Program", "Shape", "read_hlo", "read_module"]
