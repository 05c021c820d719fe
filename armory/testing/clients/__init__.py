"""MCP clients for tests, from raw messages to whole conversations."""
