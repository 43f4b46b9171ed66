"""What goes wrong around a command: signals, kills, full disks, limits (`make faults`)."""
