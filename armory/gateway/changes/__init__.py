"""What upstreams say outside requests, and who listens."""
