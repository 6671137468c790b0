"""The command line: parses, calls the flow, renders."""
