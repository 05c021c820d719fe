"""Tasks, and whose they are."""
