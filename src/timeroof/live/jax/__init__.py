"""What knows JAX's records."""
