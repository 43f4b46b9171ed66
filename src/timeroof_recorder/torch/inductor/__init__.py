"""torch.compile'd programs: what Inductor puts into each kernel, kept when it compiles."""
