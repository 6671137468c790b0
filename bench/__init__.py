"""Measures reflectloop against peers and floors in one run."""
