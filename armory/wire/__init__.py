"""MCP for clients: transports, protocol eras, sessions, interactive requests."""
