"""The served snapshot and its search index, kept current."""
