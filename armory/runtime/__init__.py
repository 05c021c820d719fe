"""Startup: the only room that turns configuration into objects, and their order."""

from armory.runtime.opening import open_runtime
from armory.runtime.reloading import Reloaded
from armory.runtime.running import Runtime

__all__ = ["Reloaded", "Runtime", "open_runtime"]
