"""The REST API: one table of routes, one way through a request, one shape of errors."""
