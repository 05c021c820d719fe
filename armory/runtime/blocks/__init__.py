"""Builds objects from single blocks of `armory.yaml`."""
