"""The audit: an append-only record of calls in which gaps and changes can be detected."""
