"""Files that are copied next to a check's report, and run by the project's Python."""
