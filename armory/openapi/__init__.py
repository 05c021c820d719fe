"""OpenAPI descriptions as tools. Knows no MCP upstream and does no I/O."""
