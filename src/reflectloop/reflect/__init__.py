"""What a failure is, what most likely caused it, and what to do next; runs nothing and keeps nothing."""
