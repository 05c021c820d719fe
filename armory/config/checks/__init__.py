"""Checks of a whole configuration: contradictions are errors, oddities are warnings."""
