"""Upstreams without an MCP server: an API behind its description, a folder of skills."""
