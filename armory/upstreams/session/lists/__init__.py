"""What an upstream lists: all lists, the pages of one, single entries."""
