"""Parse Python tests and compare what they check."""
