"""The same submissions put to four judges: an exit code, two programs of others, and this one."""
