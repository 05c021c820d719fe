"""Upstreams that are no MCP server: an HTTP API with an OpenAPI description, a folder of skills."""
