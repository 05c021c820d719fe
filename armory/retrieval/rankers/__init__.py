"""Rankers: candidates in, scores out."""
