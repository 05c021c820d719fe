"""Commands that run a gateway or change what it has been told."""
