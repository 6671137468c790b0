"""FileOps on a project: requests, what was answered, and the plan behind them."""
