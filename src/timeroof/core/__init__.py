"""The nouns: machine, profile, verdicts, report, and their files."""
