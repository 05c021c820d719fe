"""Runs all checks, causes before effects.

Owns: `examined`. Never decides how it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from armory.config import ConfigProblems, Loaded, warnings_of
from armory.errors import ConfigError
from armory.runtime.blocks.secrets import hide_secrets
from armory.runtime.blocks.upstreams import upstream_specs
from armory.runtime.checking import checked
from armory.runtime.doctor.findings import Finding, failed, ok, warning
from armory.runtime.doctor.machine import clock, machine, memory, versions
from armory.runtime.doctor.services import services
from armory.runtime.doctor.upstreams import upstreams

UPSTREAM_S = 60.0


def configuration(path: Path) -> tuple[Loaded | None, list[Finding]]:
    """(the configuration, findings about it); None where it is invalid."""
    try:
        loaded = checked(path)
    except ConfigProblems as error:
        fix = f"correct it in {path}; docs/configuration.md has every key"
        return None, [failed("configuration", str(problem), fix) for problem in error.problems]
    except ConfigError as error:
        fix = "`armory init` writes one; --config FILE names another"
        return None, [failed("configuration", error.message, fix)]
    hide_secrets(loaded.config)
    found = [ok("configuration", f"{path} holds")]
    notices = [*loaded.notices, *warnings_of(loaded.config)]
    return loaded, found + [
        warning("configuration", text, "see docs/configuration.md") for text in notices
    ]


async def examined(
    path: Path,
    *,
    upstream_s: float = UPSTREAM_S,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """All findings about an installation; opens no port and serves no request.

    Args:
        path: of the configuration.
        upstream_s: so long one upstream may take to start and list its tools.
        on_progress: called with how many upstreams have been examined, and of how many.
    """
    loaded, found = configuration(path)
    if loaded is None:
        return [*found, versions(), memory(), clock(time.time())]
    found += machine(loaded)
    found += await services(loaded)
    found += await upstreams(upstream_specs(loaded), upstream_s, on_progress)
    return found
