"""Pure functions on tables: bounds, groups, totals."""
