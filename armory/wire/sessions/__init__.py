"""What a client with a handshake keeps between its requests."""
