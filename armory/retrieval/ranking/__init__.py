"""The ranking of a query's candidates, and the cut that is shown."""
