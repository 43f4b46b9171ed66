"""A CPU measured with micro-kernels in LLVM IR that are compiled at run time."""
