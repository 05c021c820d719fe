"""The vocabulary of the protocol, each table once; independent of transports.

Owns: raw JSON, the JSON-RPC envelope and its codes, MCP messages, `_meta` keys, versions, headers.
Never imports anything above `domain`.
"""
