"""Indexes: where vectors live and are searched, one store a file."""
