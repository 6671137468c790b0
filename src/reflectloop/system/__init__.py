"""The outside world: processes, git, files and the clock, each behind one module."""
