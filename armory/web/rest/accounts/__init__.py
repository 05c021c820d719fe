"""Keys, users, packs and usage over REST."""
