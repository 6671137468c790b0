"""The plan: one immutable input, read strictly, every fault reported at once."""
