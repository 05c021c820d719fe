"""Commands that measure retrieval and fit it."""
