"""Rules by what they are about, each named after the pattern that it looks for."""
