"""`armory.yaml`: models, loading, schema. Read by `runtime` and `cli` only."""

from armory.config.checks import warnings_of
from armory.config.load import find_config, load_file, load_text
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
    "warnings_of",
]
