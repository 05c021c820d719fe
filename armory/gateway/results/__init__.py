"""Maps answers and notifications of upstreams to the client's names."""
