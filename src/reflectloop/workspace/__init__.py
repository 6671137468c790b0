"""The isolated copy of a project: taken as a snapshot, checked out as a workspace, returned as an exact patch."""
