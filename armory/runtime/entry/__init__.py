"""The ports that requests come in by, and local access for commands on this machine."""
