"""Commands other than `run`, `tr`, `verify` and `gate`: one module for each, with no printing in it."""
