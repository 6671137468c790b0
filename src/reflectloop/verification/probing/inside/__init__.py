"""Programs that run in the box with the project's Python: standard library of 3.8 only, no name of the engine."""
