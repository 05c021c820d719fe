"""`armory.yaml`: models, loading, schema. Read by `runtime` and `cli` only.

The models are made when they are first asked for: a command that asks a gateway needs none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armory.config.checks.warnings import warnings_of
    from armory.config.home import find_config
    from armory.config.load import load_file, load_text, read_file
    from armory.config.loaded import ConfigProblems, Loaded
    from armory.config.model import Config
    from armory.config.problems import Problem

__all__ = [
    "Config",
    "ConfigProblems",
    "Loaded",
    "Problem",
    "find_config",
    "load_file",
    "load_text",
    "read_file",
    "warnings_of",
]

_PLACES = {
    "Config": "model",
    "ConfigProblems": "loaded",
    "Loaded": "loaded",
    "Problem": "problems",
    "find_config": "home",
    "load_file": "load",
    "load_text": "load",
    "read_file": "load",
    "warnings_of": "checks.warnings",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
