"""The note server's tools, resources and prompts.

Owns: what the demo offers over MCP. Never imports another room of Armory.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, TypeVar

from mcp.types import ToolAnnotations
from pydantic import Field

from armory.demo.sdk import MCPServer, ToolError, notes_server
from armory.demo.store import Note, NoteError, NoteStore

NoteId = Annotated[int, Field(description="Number of the note", ge=1)]
Tags = Annotated[list[str], Field(description="Tags: lower-case words")]


def _hints(**hints: bool) -> ToolAnnotations:
    """By the names of the protocol, which both majors of the SDK read."""
    return ToolAnnotations.model_validate({**hints, "openWorldHint": False})


_READS = _hints(readOnlyHint=True)
_WRITES = _hints(readOnlyHint=False, destructiveHint=False)
_REPLACES = _hints(readOnlyHint=False, destructiveHint=True, idempotentHint=True)
_INSTRUCTIONS = "Keeps short notes with titles, text and tags. Numbers identify notes."

_R = TypeVar("_R")


def _version() -> str:
    try:
        return version("armory-mcp-gateway")
    except PackageNotFoundError:  # run from a source tree
        return "0"


def _or_tool_error(work: Callable[[], _R]) -> _R:
    """The store's complaints as results that a model can read."""
    try:
        return work()
    except NoteError as error:
        raise ToolError(str(error)) from error


def _brief(note: Note) -> dict[str, Any]:
    first = next((line for line in note.body.splitlines() if line.strip()), "")
    return {
        "id": note.id,
        "title": note.title,
        "tags": list(note.tags),
        "pinned": note.pinned,
        "updated": note.updated,
        "preview": first[:120],
    }


def _markdown(note: Note) -> str:
    tags = " ".join(f"#{tag}" for tag in note.tags)
    return f"# {note.title}\n\n{note.body}\n" + (f"\n{tags}\n" if tags else "")


def build_server(store: NoteStore) -> MCPServer[Any]:
    """The MCP server over one store."""
    server = notes_server("armory-demo-notes", "Notes", _version(), _INSTRUCTIONS)
    _add_reading_tools(server, store)
    _add_writing_tools(server, store)
    _add_resources(server, store)
    _add_prompts(server, store)
    return server


def _add_reading_tools(server: MCPServer[Any], store: NoteStore) -> None:
    @server.tool(title="Read a note", annotations=_READS)
    def get_note(note_id: NoteId) -> dict[str, Any]:
        """Read one note in full: title, text, tags and dates."""
        return _or_tool_error(lambda: store.get(note_id).as_dict())

    @server.tool(title="List notes", annotations=_READS)
    def list_notes(
        tag: Annotated[str | None, Field(description="Only notes with this tag")] = None,
        limit: Annotated[int, Field(description="At most so many", ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        """List the notes, pinned ones first, then the latest, with a line of each."""
        found = _or_tool_error(lambda: store.find(tag=tag, limit=limit))
        return {"notes": [_brief(note) for note in found]}

    @server.tool(title="Search notes", annotations=_READS)
    def search_notes(
        words: Annotated[str, Field(description="Words that the note must hold, all of them")],
        limit: Annotated[int, Field(description="At most so many", ge=1, le=500)] = 20,
    ) -> dict[str, Any]:
        """Find notes whose title or text holds all the given words."""
        return {"notes": [_brief(note) for note in store.find(words, limit=limit)]}

    @server.tool(title="List tags", annotations=_READS)
    def list_tags() -> dict[str, Any]:
        """List every tag in use with the number of notes that carry it."""
        return {"tags": store.tags()}

    @server.tool(title="Export notes", annotations=_READS)
    def export_notes(
        tag: Annotated[str | None, Field(description="Only notes with this tag")] = None,
    ) -> str:
        """Export notes as one Markdown document."""
        notes = _or_tool_error(lambda: store.find(tag=tag, limit=500))
        return "\n".join(map(_markdown, notes)) or "There are no notes.\n"


def _add_writing_tools(server: MCPServer[Any], store: NoteStore) -> None:
    @server.tool(title="Write a note", annotations=_WRITES)
    def add_note(
        title: Annotated[str, Field(description="Short title")],
        body: Annotated[str, Field(description="Text of the note, Markdown")] = "",
        tags: Tags = [],  # noqa: B006 - the SDK reads the default from the signature
    ) -> dict[str, Any]:
        """Write down a new note with a title, a text and optional tags."""
        return _or_tool_error(lambda: store.add(title, body, tags).as_dict())

    @server.tool(title="Change a note", annotations=_REPLACES)
    def update_note(
        note_id: NoteId,
        title: Annotated[str | None, Field(description="New title")] = None,
        body: Annotated[str | None, Field(description="New text; replaces the old one")] = None,
    ) -> dict[str, Any]:
        """Replace the title or the text of an existing note."""
        return _or_tool_error(lambda: store.change(note_id, title=title, body=body).as_dict())

    @server.tool(title="Append to a note", annotations=_WRITES)
    def append_to_note(
        note_id: NoteId,
        text: Annotated[str, Field(description="Paragraph to add")],
    ) -> dict[str, Any]:
        """Add a paragraph at the end of an existing note."""
        return _or_tool_error(lambda: store.append(note_id, text).as_dict())

    @server.tool(title="Delete a note", annotations=_REPLACES)
    def delete_note(note_id: NoteId) -> str:
        """Delete a note for good. Archive it instead if it may be needed again."""
        return f"Deleted: {_or_tool_error(lambda: store.delete(note_id)).title}"

    @server.tool(title="Tag a note", annotations=_WRITES)
    def tag_note(
        note_id: NoteId,
        add: Tags = [],  # noqa: B006 - the SDK reads the default from the signature
        remove: Tags = [],  # noqa: B006 - likewise
    ) -> dict[str, Any]:
        """Put tags on a note, or take tags off it."""
        return _or_tool_error(lambda: store.tag(note_id, add=add, remove=remove).as_dict())

    @server.tool(title="Pin a note", annotations=_WRITES)
    def pin_note(
        note_id: NoteId,
        pinned: Annotated[bool, Field(description="false unpins it")] = True,
    ) -> dict[str, Any]:
        """Keep a note at the top of the list, or let it go again."""
        return _or_tool_error(lambda: store.change(note_id, pinned=pinned).as_dict())

    @server.tool(title="Archive a note", annotations=_WRITES)
    def archive_note(
        note_id: NoteId,
        archived: Annotated[bool, Field(description="false brings it back")] = True,
    ) -> dict[str, Any]:
        """Put a note away, out of lists and searches, or bring it back."""
        return _or_tool_error(lambda: store.change(note_id, archived=archived).as_dict())


def _add_resources(server: MCPServer[Any], store: NoteStore) -> None:
    @server.resource("notes://index", name="index", title="All notes", mime_type="text/markdown")
    def index() -> str:
        """Titles and numbers of all notes."""
        lines = [f"- {note.id}: {note.title}" for note in store.find(limit=500)]
        return "\n".join(["# Notes", "", *lines]) + "\n"

    @server.resource("notes://tags", name="tags", title="All tags", mime_type="application/json")
    def tags() -> dict[str, int]:
        """Every tag and the number of its notes."""
        return store.tags()

    @server.resource(
        "notes://note/{note_id}", name="note", title="One note", mime_type="text/markdown"
    )
    def note(note_id: int) -> str:
        """One note as Markdown."""
        return _markdown(store.get(note_id))


def _add_prompts(server: MCPServer[Any], store: NoteStore) -> None:
    @server.prompt(title="Summarise a note")
    def summarise_note(note_id: str) -> str:
        """Ask for a summary of one note in three sentences."""
        return f"Summarise this note in three sentences.\n\n{_markdown(store.get(int(note_id)))}"

    @server.prompt(title="Review the week")
    def weekly_review() -> str:
        """Go through the latest notes and find what is still open."""
        notes = "\n".join(map(_markdown, store.find(limit=20)))
        return (
            "Go through these notes. Say what was decided, what is still open, and what should "
            f"come first next week.\n\n{notes}"
        )
