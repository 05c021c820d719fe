"""Transports to upstreams: a process's pipes, Streamable HTTP, HTTP+SSE."""
