"""Lessons: reviewed files are the source of truth and an index searches them; lessons advise and never give orders."""
