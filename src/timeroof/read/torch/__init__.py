"""PyTorch's files: Kineto traces and ExecutionTraces."""
