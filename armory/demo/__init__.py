"""A small note-keeping MCP server, so that a fresh installation has something real to serve."""
