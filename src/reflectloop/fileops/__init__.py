"""The FileOps protocol: an agent or a script changes a workspace only by validated requests."""
