"""The nine steps: agents plan, execute and review; the engine runs, looks and decides."""
