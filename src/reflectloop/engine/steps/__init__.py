"""Execution of one step, by commands or by an agent, and the diagnosis of its failure."""
