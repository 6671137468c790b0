"""The one truth: an append-only journal, and the state folded from it."""
