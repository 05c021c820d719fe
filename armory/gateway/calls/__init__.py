"""Calling tools."""
