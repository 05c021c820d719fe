"""Definitions as listings show them: the upstream's JSON with the few changes that a hop must make.

Owns: exposed names, overrides, era differences and `x-mcp-header` in listed definitions, as bytes.
Never imports retrieval, policy or a transport.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from armory.domain.naming import expose_uri
from armory.domain.skills import exposed_skill
from armory.domain.tool import SEARCH_HINT, ListedRecord, ToolRecord
from armory.gateway.views.readable import readable
from armory.protocol.headers import unannotated
from armory.protocol.meta import ALWAYS_LOAD, UI, UI_RESOURCE
from armory.protocol.versions import Era

_encode = msgspec.json.encode
Kind = Literal["prompts", "resources", "templates", "skills"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which definitions are listed.

    Attributes:
        era: legacy clients get object output schemas only.
        original: the upstream's own names and URIs, nothing changed (the transparent endpoint).
        headers: keep `x-mcp-header` annotations.
        load: mark the tool as one to load always.
    """

    era: Era
    original: bool = False
    headers: bool = False
    load: bool = False


def tool_bytes(record: ToolRecord, form: Form) -> bytes:
    """One tool as JSON."""
    definition = record.definition if form.original else readable(record.definition, "tools")
    changed: dict[str, Any] = dict(definition)
    if not form.original:
        changed["name"] = record.name
        mapped = _mapped_ui(definition.get("_meta"), record.server)
        if mapped is not None:
            changed["_meta"] = mapped
        if must_be_task(record):
            changed["execution"] = {**definition["execution"], "taskSupport": "optional"}
        hint = record.hint
        if hint and not record.search_hint:
            changed["_meta"] = {**_members(changed.get("_meta")), SEARCH_HINT: hint}
    said = definition.get("description")
    if record.description != (said if isinstance(said, str) else ""):
        changed["description"] = record.description
    if form.era == "legacy" and not _object_schema(definition.get("outputSchema")):
        changed.pop("outputSchema", None)
    if not form.headers:
        schema = definition.get("inputSchema")
        bare = unannotated(schema)
        if bare is not schema:
            changed["inputSchema"] = bare
    if form.load:
        changed["_meta"] = {**_members(changed.get("_meta")), ALWAYS_LOAD: True}
    return _encode(changed)


def _members(meta: object) -> dict[str, Any]:
    return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}


def listed_bytes(record: ListedRecord | ToolRecord, kind: Kind, form: Form) -> bytes:
    """One prompt, resource, resource template or skill as JSON."""
    if form.original:
        return _encode(record.definition)
    if kind == "skills":
        return _encode(exposed_skill(record.definition, record.server))
    key = {"prompts": "name", "resources": "uri", "templates": "uriTemplate"}[kind]
    changed = {**readable(record.definition, kind), key: record.name}
    mapped = _mapped_ui(changed.get("_meta"), record.server)
    if mapped is not None:
        changed["_meta"] = mapped
    return _encode(changed)


def ui_meta(record: ToolRecord) -> dict[str, Any]:
    """The user interface in a tool's `_meta`, links exposed; empty where there is none."""
    meta = record.definition.get("_meta")
    shown = _mapped_ui(meta, record.server) or meta
    if not isinstance(shown, dict):
        return {}
    return {k: v for k, v in cast("dict[str, Any]", shown).items() if k in (UI, UI_RESOURCE)}


def _object_schema(schema: object) -> bool:
    return isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "object"


def _mapped_ui(meta: object, server: str) -> dict[str, Any] | None:
    """`_meta` with its `ui://` links exposed; None when there are none."""
    if not isinstance(meta, dict):
        return None
    changed = dict(cast("dict[str, Any]", meta))
    flat = changed.get(UI_RESOURCE)
    if isinstance(flat, str):
        changed[UI_RESOURCE] = expose_uri(server, flat)
    ui = changed.get(UI)
    if isinstance(ui, dict):
        link = cast("dict[str, Any]", ui).get("resourceUri")
        if isinstance(link, str):
            changed[UI] = {**ui, "resourceUri": expose_uri(server, link)}
    return changed if changed != meta else None


def must_be_task(tool: ToolRecord) -> bool:
    """Whether the upstream takes calls of a tool only as tasks. The gateway takes plain calls as
    well; some SDKs refuse to send these where the definition forbids it.
    """
    execution = tool.definition.get("execution")
    if not isinstance(execution, dict):
        return False
    return cast("dict[str, object]", execution).get("taskSupport") == "required"


def for_models(tool: ToolRecord) -> bool:
    """Whether models may call it, not only apps (`_meta.ui.visibility`)."""
    meta = tool.definition.get("_meta")
    ui = cast("dict[str, Any]", meta).get(UI) if isinstance(meta, dict) else None
    shown = cast("dict[str, Any]", ui).get("visibility") if isinstance(ui, dict) else None
    return not isinstance(shown, list) or "model" in shown
