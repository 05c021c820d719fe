"""Training of the embedder that ships with Armory. Nothing here is needed at run time."""
