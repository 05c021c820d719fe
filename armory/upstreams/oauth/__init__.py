"""Access tokens toward upstreams: the gateway's own, each person's own, and exchanged ones."""
