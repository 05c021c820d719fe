"""What differs between protocol revisions, as pure functions."""
