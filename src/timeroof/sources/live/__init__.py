"""Live programs: one file per framework, each imported only where that framework is used."""
