"""Shared by both sides of OAuth: requests to authorization servers, and their metadata."""
