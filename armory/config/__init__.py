"""`armory.yaml`: models, loading, schema. Read by `runtime` and `cli` only."""

from armory.config.checks import warnings_of
from armory.config.load import Loaded, find_config, load_file, load_text
from armory.config.model import Config
from armory.config.problems import ConfigProblems, Problem

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
