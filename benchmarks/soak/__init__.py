"""Soak: mixed traffic over misbehaving upstreams; nothing may grow, no call be lost or doubled."""
