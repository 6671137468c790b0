"""Real packages with a bug each: the true fix is let through, and every known way to cheat is refused."""
