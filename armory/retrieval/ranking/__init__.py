"""The answer to a query and the cut that is shown of it."""
