"""Known machines, one TOML file each, and how they are found."""
