"""Scale: how indexing and searching grow with the catalog."""
