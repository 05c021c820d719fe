"""The REST API: one table of routes, one path through a request, one shape of errors."""
