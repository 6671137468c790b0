"""Access to the operating system: processes, git, files and the clock, each in one module."""
