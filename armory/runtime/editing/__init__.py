"""Editing of the configuration file through the gateway. Used by `runtime.rest` only."""
