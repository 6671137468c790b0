"""Runs a plan in an isolated copy of a repository and lets only proven work through."""

__version__ = "0.1.0.dev0"
