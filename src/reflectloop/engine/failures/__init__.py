"""What went wrong with a log, a command or a run, and the way on from there."""
