"""What the package does for its users, joined from the rooms."""
