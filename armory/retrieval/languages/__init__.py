"""Queries in languages other than English: glossaries, and translating word for word."""
