"""The paper's own measurements, judged and drawn."""
