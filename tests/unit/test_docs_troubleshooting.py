"""What docs/troubleshooting.md quotes is what the code says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
FOREIGN = (
    *("armory: command not found", "Connection refused", "Name or service not known"),
    *("permission denied for schema public", "input_schema does not", "JSON schema is invalid"),
)
"""Words of a shell, of the system, of Postgres and of a model's provider."""
LEAST = 12
"""Shorter pieces of a message say too little to be looked for."""
VALUE = re.compile(
    r"\.\.\.|;|'[^']*'|\b\d[\w.:]*(?: s\b)?|\bX\b|https?://|armory\.yaml|Mcp-Session-Id|mcp-method"
    r"|\btop_k\b|\bnpx\b|\bpostinstall\b|\binitialize\b|tools/call"
)
"""What stands in a quoted message for what differs from case to case."""


def said() -> str:
    """Every text of the package, literals that follow each other as one."""
    texts: list[str] = []
    for path in (ROOT / "armory").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else "\0" for part in node.values
                )
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts).replace("`", "")


def quoted() -> list[str]:
    """The messages: what the first column has in backticks, or the second after a status."""
    found: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            first, second = line.split("|")[1:3]
            told = second if re.fullmatch(r"\d{3}", first.strip()) else first
            found += [text for text in re.findall(r"`([^`]+)`", told) if " " in text]
    return found


def test_messages_are_worded_as_the_code_words_them() -> None:
    texts = said()
    messages = [text for text in quoted() if not any(word in text for word in FOREIGN)]
    pieces = [
        piece.strip(" ,;:()[]")
        for text in messages
        for piece in VALUE.split(text)
        if len(piece.strip(" ,;:()[]")) >= LEAST
    ]
    assert len(pieces) > 40
    assert [piece for piece in pieces if piece not in texts] == []
