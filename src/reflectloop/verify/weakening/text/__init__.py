"""Reads tests of other languages by their text and compares what they demand."""
