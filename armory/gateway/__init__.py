"""The request path: what a client may ask, and how each question is answered."""
