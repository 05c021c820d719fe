"""`python -m armory.demo`: the note server on stdio.

Owns: its command line. Never imports another room of Armory.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from pathlib import Path

from armory.demo.server import build_server
from armory.demo.store import NoteStore


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="python -m armory.demo", description="A small note-keeping MCP server on stdio."
    )
    parser.add_argument(
        "--file",
        type=Path,
        help="SQLite file with the notes; without it they are gone when the server ends",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="armory-demo-") as folder:
        try:
            store = NoteStore(arguments.file or Path(folder) / "notes.db")
        except (OSError, sqlite3.Error) as error:
            sys.exit(f"the notes cannot be kept in {arguments.file}: {error}")
        build_server(store).run("stdio")


if __name__ == "__main__":
    main()
