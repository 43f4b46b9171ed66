"""NVIDIA's files: Nsight Compute, Nsight Systems, nvprof."""
