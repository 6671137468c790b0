"""Gates and sealed verification with their files."""
