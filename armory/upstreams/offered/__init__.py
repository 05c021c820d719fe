"""What an upstream offers: its lists, its groups, and the tool that asks for a login."""
