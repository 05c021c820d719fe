"""Indexing: from a catalog to a searchable snapshot."""
