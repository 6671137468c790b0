"""Attempts to get out: by a repository, a patch, a set-up, a check, an agent, a server; each judged from outside."""
