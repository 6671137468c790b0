"""Features as people write them, with tests: work that uses arguments, files, clocks and signals is let through."""
