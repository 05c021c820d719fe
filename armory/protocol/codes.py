"""JSON-RPC error codes: the standard's, MCP's, Armory's own.

Owns: the numbers. Never imports anything.
"""

from __future__ import annotations

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

SESSION_NOT_FOUND = -32001
"""The specification names the status alone, 404. The TypeScript SDK says this code with it, and
some clients (Claude Code) begin a new session for it only.
"""
RESOURCE_NOT_FOUND = -32002
"""Legacy revisions only; modern ones say INVALID_PARAMS."""
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
"""Revision 2025-11-25 only."""
MODERN_ERRORS = frozenset(range(-32099, -32019))
"""Codes that the modern specification reserves for itself."""

UNAVAILABLE = 1001
TIMED_OUT = 1002
LIMITED = 1003
BACKEND = 1004
