"""MCP for clients: transports in front, eras, sessions, interactions."""
