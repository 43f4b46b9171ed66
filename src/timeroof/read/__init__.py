"""One reader per format, told apart by content; a folder per vendor."""
