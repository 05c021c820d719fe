"""How requests come in: the ports, and a way in for commands on this machine."""
