"""Lessons, tickets and reflections of a project, kept, read back and turned into rules."""
