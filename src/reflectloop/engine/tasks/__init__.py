"""The tasks of a project: which plan each works on, its journal, its progress."""
