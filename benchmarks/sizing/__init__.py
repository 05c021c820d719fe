"""What a gateway takes: memory and processor by tools and calls."""
