"""Replicas: what they share, and commands that are meant for all of them."""
