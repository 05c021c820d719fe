"""Keys of `_meta`.

Owns: their names and which of them belong to one hop. Never imports anything.
"""

from __future__ import annotations

PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
SERVER_INFO = PREFIX + "serverInfo"
LOG_LEVEL = PREFIX + "logLevel"
SUBSCRIPTION_ID = PREFIX + "subscriptionId"
RELATED_TASK = PREFIX + "related-task"
PROGRESS_TOKEN = "progressToken"
HOP_KEYS = frozenset(
    (
        PROTOCOL_VERSION,
        CLIENT_CAPABILITIES,
        CLIENT_INFO,
        LOG_LEVEL,
        SUBSCRIPTION_ID,
        PROGRESS_TOKEN,
    )
)
"""Keys of a request's `_meta` that are for the next hop only; the others are passed on."""

OWN_PREFIX = "dev.armory/"
ERROR = OWN_PREFIX + "error"
SELECTION = OWN_PREFIX + "selection"
DEGRADED = OWN_PREFIX + "degraded"
"""What an answer lacks, in words."""
QUERY = OWN_PREFIX + "query"
EXPLAIN = OWN_PREFIX + "explain"
"""Asks `search_tools` for every candidate, its signals, and why it is out."""
TAGS = OWN_PREFIX + "tags"
TOOL_RAG = OWN_PREFIX + "tool-rag"
"""Name of the extension, in capabilities."""
ALWAYS_LOAD = "anthropic/alwaysLoad"
TOOL_REFERENCE = "anthropic/tool_reference"
UI = "ui"
UI_RESOURCE = "ui/resourceUri"
