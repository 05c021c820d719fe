"""How bytes reach an upstream: a process's pipes, Streamable HTTP, HTTP+SSE."""
