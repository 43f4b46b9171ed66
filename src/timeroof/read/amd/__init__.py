"""AMD's files: rocprof v1 to v3, rocpd, Omniperf."""
