"""Embedders: text to unit vectors, one adapter a file."""
