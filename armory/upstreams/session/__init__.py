"""One session with an upstream: negotiation, requests in flight, lists, notifications."""
