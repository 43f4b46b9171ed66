"""What a study leaves to read: one page with charts, tables and conclusions, and its data."""
