"""Real commits of public histories, put to `verify`: `HISTORY_DIR=FOLDER make proof-history`."""
