"""The paper as a tool: grids of kernels measured on this machine, and what the numbers say."""
