"""The gateway's own tools (meta-tools): their definitions, arguments and answers."""
