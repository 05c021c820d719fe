"""From one block of `armory.yaml` to the objects that it configures."""
