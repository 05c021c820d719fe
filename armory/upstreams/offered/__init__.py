"""What an upstream offers: its lists and groups, and the tool that asks for a login."""
