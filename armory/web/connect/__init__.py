"""The pages on which a person connects accounts of its own."""
