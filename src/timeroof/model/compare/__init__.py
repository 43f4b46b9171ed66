"""What got faster or slower between two runs, and why."""
