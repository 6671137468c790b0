"""The straight line: plan, snapshot, workspace, steps, patch, envelope; and what is done with a run afterwards."""
