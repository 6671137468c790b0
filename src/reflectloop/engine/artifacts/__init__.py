"""State and results for readers: views, published files, what commands look back at."""
