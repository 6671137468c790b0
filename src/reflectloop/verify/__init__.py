"""Finding out whether work holds: checks, run by the engine itself."""
