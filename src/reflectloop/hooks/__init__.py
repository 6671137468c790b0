"""Answer the hooks of agents that people already use: one core, and one adapter for each client."""
