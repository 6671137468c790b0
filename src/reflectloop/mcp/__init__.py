"""Serves the commands to agents by the Model Context Protocol. Needs the extra `mcp`."""
