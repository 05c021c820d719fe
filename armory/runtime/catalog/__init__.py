"""Keeps the served snapshot and its search index current."""
