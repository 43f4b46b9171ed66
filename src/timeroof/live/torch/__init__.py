"""PyTorch programs while they run: steps found, passes taken, plain tables handed over."""
