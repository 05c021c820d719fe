"""The HTTP server and what it answers besides MCP."""
