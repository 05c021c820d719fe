"""Tools from OpenAPI descriptions. Knows no MCP upstream and does no I/O."""
