"""Converts the server entries of other MCP clients into upstream blocks."""
