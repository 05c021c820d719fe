"""Asking the client during a call, across protocol eras."""
