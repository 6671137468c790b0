"""Lessons: the files that a team reviews are the truth, the index finds them; they advise, and never order."""
