"""Cheats that no rule was written for: spelled anew each run, from tables of ways to cheat."""
