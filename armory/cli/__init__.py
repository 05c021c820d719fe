"""The `armory` command: one small file a subcommand."""
