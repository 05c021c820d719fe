"""Vector indexes, one store in each file."""
