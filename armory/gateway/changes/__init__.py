"""Notifications of upstreams, and the clients that listen for them."""
