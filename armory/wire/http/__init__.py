"""MCP over HTTP: admission, the endpoints of both eras, HTTP+SSE, forwarding between replicas."""
