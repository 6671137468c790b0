"""The state of a task: an append-only journal, and the state computed from it."""
