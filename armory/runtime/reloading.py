"""Hot reload: which parts of a configuration can be replaced while the gateway serves.

Owns: the comparison of configurations. Opens nothing, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from armory.config import Config
from armory.runtime.retrieval import ENGINE_KEYS
from armory.upstreams.spec import UpstreamSpec

_RESTART_BLOCKS = ("server", "accounts", "storage", "agent", "observability")
_FIXED_KEYS = {
    "tool_rag": ENGINE_KEYS,
    "security": ("tokens", "api_keys", "jwt", "oauth", "encryption_key", "allow_anonymous"),
}
"""Keys that take a restart in blocks of which the rest is swapped."""


@dataclass(slots=True)
class Reloaded:
    """The effects of a new configuration.

    Attributes:
        applied: blocks that differ and are in force now.
        needs_restart: blocks and keys that differ from what the gateway began with, which they
            take a restart to change.
        kept, restarted, added, removed: upstreams; those that are kept keep their processes and
            sessions.
    """

    applied: list[str] = field(default_factory=list[str])
    needs_restart: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    restarted: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])

    def sort(self, before: Iterable[UpstreamSpec], after: Iterable[UpstreamSpec]) -> None:
        """Record what happens to each upstream, by the same comparison as the pool's."""
        old, new = {spec.key: spec for spec in before}, {spec.key: spec for spec in after}
        for key, spec in new.items():
            if key not in old:
                self.added.append(key)
            else:
                (self.kept if old[key] == spec else self.restarted).append(key)
        self.removed += [key for key in old if key not in new]


def in_force(started: Config, new: Config) -> Config:
    """The part of a new configuration that takes effect without a restart; the rest stays as it was
    at the start.

    Args:
        started: what the gateway began with.
        new: what has been read now.
    """
    held = {block: getattr(started, block) for block in _RESTART_BLOCKS}
    for block, keys in _FIXED_KEYS.items():
        first = getattr(started, block)
        fixed = {key: getattr(first, key) for key in keys}
        held[block] = getattr(new, block).model_copy(update=fixed)
    return new.model_copy(update=held)


def difference(started: Config, last: Config, new: Config) -> Reloaded:
    """Which blocks differ, by whether they can be replaced without a restart.

    Args:
        started: what the gateway began with, which what takes a restart is compared with: a change
            that was read before is still due, and one that was taken back is not.
        last: what is in force (`in_force`).
        new: what has been read now.
    """
    report = Reloaded()
    report.needs_restart += _lacking_pages(started, new)
    for block in Config.model_fields:
        first, before, after = (getattr(config, block) for config in (started, last, new))
        if block in _RESTART_BLOCKS:
            if first != after:
                report.needs_restart.append(block)
            continue
        fixed = _FIXED_KEYS.get(block, ())
        changed = [key for key in fixed if getattr(first, key) != getattr(after, key)]
        report.needs_restart += [f"{block}.{key}" for key in changed]
        unfixed = {key: getattr(before, key) for key in fixed}
        if before != (after.model_copy(update=unfixed) if fixed else after):
            report.applied.append(block)
    return report


def _lacking_pages(started: Config, new: Config) -> list[str]:
    """Upstreams where people log in, if the gateway started without the pages for that."""
    if _with_logins(started):
        return []
    return [f"upstreams.{key}.auth" for key in _with_logins(new)]


def _with_logins(config: Config) -> list[str]:
    """Upstreams at which each caller has an account of its own."""
    enabled = {key: block.auth for key, block in config.upstreams.items() if block.enabled}
    return [
        key
        for key, auth in enabled.items()
        if auth is not None and (auth.type, auth.per) == ("authorization_code", "principal")
    ]
