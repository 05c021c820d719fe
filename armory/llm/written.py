"""The text of a model's message, in the forms that endpoints use.

Owns: reading it. Never imports `openai`.
"""

from __future__ import annotations

import json
from typing import Any, cast


def text_of(message: object) -> str:
    """The text of a message, "" where there is none.

    Without any, a tool call counts, as the JSON that a model would have written: some servers take
    a call out of the text although no tools were given. Then what it says of its refusal does.
    """
    said = content_of(getattr(message, "content", None))
    refusal = getattr(message, "refusal", None)
    said = said or _call_of(message) or (refusal if isinstance(refusal, str) else "")
    return said.encode("utf-8", "replace").decode()  # half of a character can be sent nowhere


def content_of(content: object) -> str:
    """Content as one text: it is a text, or a list of parts (Mistral's reasoning models), without
    those of thinking.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast("dict[str, Any]", one) for one in cast("list[Any]", content) if _is_text(one)]
    return "".join(part["text"] for part in parts)


def _is_text(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    known = cast("dict[str, Any]", part)
    return known.get("type") == "text" and isinstance(known.get("text"), str)


def _call_of(message: object) -> str:
    calls = getattr(message, "tool_calls", None)
    for call in cast("list[Any]", calls) if isinstance(calls, list) else []:
        asked = getattr(call, "function", None)
        name = getattr(asked, "name", None)
        if isinstance(name, str):
            return json.dumps({"name": name, "arguments": getattr(asked, "arguments", None)})
    return ""
