"""What knows TensorFlow's records: executed ops, eager or of a graph, as described ones."""
