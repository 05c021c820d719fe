"""How fast the retrieval service answers."""
