"""Names in the configuration that match nothing that the upstreams list.

Owns: finding them, and what is said of each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from armory.config.blocks.upstream import ToolsConfig
from armory.config.model import Config
from armory.config.problems import nearest
from armory.domain.catalog import Catalog
from armory.gateway.metatools.definitions import META_TOOLS

_PATTERN = re.compile(r"[*?\[]")
_SHOWN = 8


def unmatched_names(config: Config, catalog: Catalog) -> list[str]:
    """One line for each such name; patterns are skipped, and names that an upstream that is down
    may have.

    Args:
        config: the configuration.
        catalog: what its upstreams have listed.
    """
    said: list[str] = []
    for key, lists in catalog.servers.items():
        own = [tool["name"] for tool in lists.tools if isinstance(tool.get("name"), str)]
        if own and (block := config.upstreams.get(key)) is not None:
            for place, name in _names(block.tools):
                if name not in own:
                    said.append(_unknown(f"upstreams.{key}.tools.{place}", name, own, key))
    offered = {*catalog.tools, *catalog.prompts, *META_TOOLS}
    awaited = {key for key, block in config.upstreams.items() if block.enabled}
    awaited -= catalog.servers.keys()
    for place, name in _exposed(config):
        if name not in offered and not _may_come(name, awaited):
            said.append(_unknown(place, name, [*catalog.tools]))
    return said


def _names(tools: ToolsConfig) -> Iterator[tuple[str, str]]:
    """(where, original name) of names in `tools`; giving a tool another name or description needs
    its original one.
    """
    for place in ("allow", "deny", "pin", "tags"):
        yield from ((place, name) for name in _literal(getattr(tools, place)))
    for place in ("rename", "describe"):
        yield from ((place, name) for name in getattr(tools, place))


def _exposed(config: Config) -> Iterator[tuple[str, str]]:
    yield from (("tool_rag.pin", name) for name in _literal(config.tool_rag.pin))
    for key, block in config.sets.items():
        yield from ((f"sets.{key}.tools", name) for name in _literal(block.tools))
    for position, rule in enumerate(config.security.policies):
        for part in ("allow", "deny"):
            for name in _literal(getattr(rule, part)):
                if ":" not in name:  # a URI may be of a resource that is not listed
                    yield f"security.policies[{position}].{part}", name


def _literal(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if not _PATTERN.search(name))


def _may_come(name: str, awaited: Collection[str]) -> bool:
    """Whether the name may belong to an upstream that has not listed yet."""
    server, separator, _ = name.partition("__")
    return server in awaited if separator else bool(awaited)


def _unknown(place: str, name: str, known: list[str], key: str = "") -> str:
    shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
    if key and (own := name.removeprefix(f"{key}__")) in known:
        hint = f"here a tool is called as its server calls it: {own!r}"
    elif guess := nearest(name, known):
        hint = f"did you mean {guess!r}?"
    else:
        hint = f"there are: {shown}" if known else "there is none"
    what = "no tool of this server" if key else "nothing that is offered"
    return f"{place}: {name!r} is {what}; {hint}"
