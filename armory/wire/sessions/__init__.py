"""Sessions of clients with a handshake."""
