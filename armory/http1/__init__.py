"""The lean HTTP/1.1 client that upstream calls travel on; knows no MCP.

Owns: connections, their pool, responses, deadlines and event streams.
"""
