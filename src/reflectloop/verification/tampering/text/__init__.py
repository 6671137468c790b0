"""Read tests of other languages as text and compare what they check."""
