"""What a long computation shares with its user: progress, Ctrl-C, limits of time."""
