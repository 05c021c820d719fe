"""Tool retrieval, usable alone as a library."""
