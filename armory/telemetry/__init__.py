"""OpenTelemetry: spans and metrics by the MCP and GenAI conventions."""
