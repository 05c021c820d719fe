"""Properties of JSON that can be read off its bytes piece by piece, without decoding it."""
