"""The large blocks of `armory.yaml`, a file each."""
