"""What TOON saves on results of real servers."""
