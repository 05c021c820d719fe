"""Candidate search: from a query to the features of its candidates."""
