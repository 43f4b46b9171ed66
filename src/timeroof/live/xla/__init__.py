"""What JAX and TensorFlow share: traces of XLA's runtime, and the compiled programs in them."""
