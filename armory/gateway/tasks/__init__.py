"""Tasks, and the principals that own them."""
