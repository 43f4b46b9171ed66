"""Where profiles come from: files that profilers wrote, and live programs."""
