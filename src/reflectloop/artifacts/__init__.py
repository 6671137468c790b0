"""Files and values made from a task's state for readers: envelopes, views, published copies, usage, next commands."""
