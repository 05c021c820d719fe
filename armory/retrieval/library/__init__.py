"""Retrieval as a Python library: `ToolMemory` and its parts."""
