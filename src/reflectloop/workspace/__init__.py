"""The isolated copy: taken from the user's tree, checked out beside it, given back as an exact patch."""
