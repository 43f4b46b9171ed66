"""Running programs: what is recorded while they run becomes a Profile."""
