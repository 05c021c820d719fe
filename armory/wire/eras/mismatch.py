"""What a header says and what the body says, for whoever sent two different things.

Owns: the words of a refusal for a header that does not match, and the one check of a header that
the SDK's ladder lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp.shared.inbound import InboundLadderRejection, decode_header_value
from msgspec import Raw

from armory.protocol.codes import HEADER_MISMATCH
from armory.protocol.headers import NAME_HEADER
from armory.protocol.rawjson import brief, text_of


def explained(
    verdict: InboundLadderRejection, headers: Mapping[str, str], in_body: Mapping[str, Any]
) -> InboundLadderRejection:
    """The refusal with both values, where it is about a header.

    Args:
        verdict: the refusal.
        headers: by lower-case name.
        in_body: what each header has to repeat, by name.
    """
    name = verdict.message.partition(" ")[0]
    expected = {header.lower(): value for header, value in in_body.items()}
    if verdict.code != HEADER_MISMATCH or name not in expected:
        return verdict
    given, wanted = headers.get(name), expected[name]
    said = "is missing" if given is None else f"is {brief(given)}"
    message = f"{verdict.message}: it {said}; expected {brief(wanted)}, as in the body"
    return replace(verdict, message=message)


def task_name(
    field: str, params: Mapping[str, Raw], headers: Mapping[str, str]
) -> InboundLadderRejection | None:
    """Why `Mcp-Name` of tasks/* does not fit; None when it does, or the method is another."""
    if field != "taskId":
        return None
    named, given = text_of(params, field), headers.get(NAME_HEADER)
    if named is None or decode_header_value(given) == named:
        return None
    folded_name = NAME_HEADER.lower()
    message = f"{folded_name} header does not match the request body's {field!r} parameter"
    verdict = InboundLadderRejection(HEADER_MISMATCH, message)
    folded = {} if given is None else {folded_name: given}
    return explained(verdict, folded, {NAME_HEADER: named})
