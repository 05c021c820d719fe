"""Retrieval as a Python library: `ToolMemory` and what stands beside it."""
