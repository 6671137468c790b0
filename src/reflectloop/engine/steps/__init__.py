"""How one step is executed: by commands or by an agent, and what its failure means."""
