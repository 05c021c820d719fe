"""The request path: how each request of a client is answered."""
