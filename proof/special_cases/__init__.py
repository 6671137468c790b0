"""Measure whether answers written for the tests' inputs are told from honest fixes."""
