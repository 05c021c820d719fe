"""Who called what: an append-only record whose gaps and changes show."""
