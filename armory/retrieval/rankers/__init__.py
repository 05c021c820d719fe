"""Rankers: evidence in, verdict out."""
