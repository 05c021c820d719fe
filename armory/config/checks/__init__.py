"""Checks of a whole configuration: what does not fit is an error, what is odd a warning."""
