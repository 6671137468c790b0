"""Policy rules learned from failed runs: drafted, replayed on past runs, accepted or rejected by a person."""
