"""From a query to the features of its candidates."""
