"""A plan from its admission to its artifacts: the line, its steps, and what is tried where one fails."""
