"""Asking the client in the midst of a call, across the eras."""
