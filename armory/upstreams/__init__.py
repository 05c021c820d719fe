"""Sessions with upstream MCP servers: transports, negotiation, pooling, supervision."""
