"""What JSON can be told from its bytes, a piece at a time, without decoding it."""
