"""Public test doubles, for tests of Armory and of programs built on it."""
