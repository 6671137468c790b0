"""The plan: one immutable input, parsed strictly, with all faults reported at once."""
