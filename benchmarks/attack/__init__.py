"""Attacks: a gateway with hostile clients and upstreams; the good clients must not notice."""
