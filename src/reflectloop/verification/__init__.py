"""Verification: checks that the engine runs itself, and the verdict on a change."""
