"""OpenTelemetry: spans and metrics that follow the MCP and GenAI conventions."""
