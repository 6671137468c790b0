"""Reads Python tests by their syntax tree and compares what they demand."""
