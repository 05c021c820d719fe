"""The HTTP server, and everything that it serves besides MCP."""
