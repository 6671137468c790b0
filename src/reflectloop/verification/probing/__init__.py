"""Probe the functions that a patch changes: record the calls of the tests, repeat them elsewhere, compare."""
