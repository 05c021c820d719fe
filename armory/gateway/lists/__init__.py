"""Answers to the listing methods."""
