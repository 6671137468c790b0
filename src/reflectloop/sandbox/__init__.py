"""The box: a workspace plus what keeps a command inside it, and what its output passes through."""
