"""The sandbox: a workspace, the isolation around its commands, and the recording of their output."""
