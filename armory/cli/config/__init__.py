"""Commands that write, check and describe `armory.yaml`."""
