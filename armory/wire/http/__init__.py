"""MCP over HTTP: admission, both eras' endpoints, HTTP+SSE, and the hop between replicas."""
