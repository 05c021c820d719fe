"""Learning from use: what was called after which query, its store and its vectors."""
