"""From the text of a real issue or fix to the file that was changed: the retriever beside others."""
