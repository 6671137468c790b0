"""The skills and subagents that agents' programs load: pages, templates and definitions, as package data."""
