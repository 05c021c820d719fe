"""Keys, packs and usage over REST: what belongs to a user."""
