"""The MCP SDK, whichever of its majors is installed.

Owns: the differences that the demo meets. Packages such as LangChain's adapters want the first, and
a note server is no reason to take it from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
else:
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:  # before 2.0
        from mcp.server.fastmcp import FastMCP as MCPServer
        from mcp.server.fastmcp.exceptions import ToolError

__all__ = ["MCPServer", "ToolError", "notes_server"]


def notes_server(name: str, title: str, version: str, instructions: str) -> MCPServer[Any]:
    """A server without tools.

    Args:
        name: of the server.
        title: for people; SDKs before 2.0 have no place for it.
        version: likewise.
        instructions: for models.
    """
    given: Any = {"instructions": instructions, "log_level": "WARNING"}
    if MCPServer.__name__ == "MCPServer":
        given |= {"title": title, "version": version}
    return MCPServer(name, **given)
