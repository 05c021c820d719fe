"""Queries of several intents: one plain search, against splitting, searching each and merging."""
