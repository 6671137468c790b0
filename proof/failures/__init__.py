"""Failures that are really caused, each labelled by how it was caused and never by what it printed."""
