"""An archive with everything that a bug report needs, without secrets.

Owns: what is in it. Nothing that a tool was given or has answered, no query, no audit.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from armory.config import Loaded
from armory.errors import ConfigError
from armory.observability.redaction import HIDDEN, names_secret, redacted, without_parameters
from armory.runtime.doctor.findings import Finding

_VARIABLES = ("ARMORY_", "OTEL_", "PYTHON", "LANG", "LC_", "TZ", "HTTP", "http", "NO_PROXY", "SSL_")
_FREE = ("env", "headers", "args")
"""Keys whose values are the user's own: only their names are shown, or how many they are."""


def write_bundle(file: Path, findings: Sequence[Finding], loaded: Loaded | None) -> list[str]:
    """Write the archive, readable by its owner only; returns the names of its files.

    Raises:
        ConfigError: it cannot be written.
    """
    packages = sorted({f"{d.metadata['Name']} {d.version}" for d in distributions()})
    parts = {
        # hidden before encoding: JSON escapes quotes and non-ASCII, and secrets would be missed
        "findings.json": json.dumps([_hidden(asdict(finding)) for finding in findings], indent=1),
        "environment.json": json.dumps(_environment(), indent=1),
        "packages.txt": "\n".join(packages) + "\n",
    }
    if loaded is not None:
        shown = _hidden(loaded.config.model_dump(mode="json", exclude_unset=True))
        parts["armory.yaml"] = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, redacted(text))
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(buffer.getvalue())
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    return list(parts)


def _environment() -> dict[str, str]:
    return {
        name: HIDDEN if names_secret(name) or name.endswith("_HEADERS") else redacted(value)
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    }


def _hidden(value: Any, name: str = "") -> Any:
    if name in _FREE:
        if isinstance(value, dict):
            return dict.fromkeys(map(str, value), HIDDEN)
        return [HIDDEN] * len(value) if isinstance(value, list) else HIDDEN
    if isinstance(value, dict):
        return {key: _hidden(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner) for inner in value]
    if isinstance(value, str) and names_secret(name):
        return HIDDEN
    return without_parameters(redacted(value)) if isinstance(value, str) else value
