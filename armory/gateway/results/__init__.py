"""Answers and notifications of upstreams on their way to the client."""
