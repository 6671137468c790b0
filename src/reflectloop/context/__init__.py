"""Finds the code that a text is about: one index of the repository, several signals, one ranking."""
