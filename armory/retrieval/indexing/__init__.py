"""From a catalog to something that can be searched."""
