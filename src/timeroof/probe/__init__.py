"""The probe: measures what this machine can do, with its spread, beside what it should do."""
