"""One module for each tool or family of tools; a new module here is all that a new tool needs."""
