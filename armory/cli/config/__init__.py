"""Commands around `armory.yaml`: write it, check it, describe it."""
