"""What other MCP clients write, as upstream blocks."""
