"""Listing what there is."""
