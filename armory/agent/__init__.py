"""The retrieval agent: a language model that decides what to search for, and when it has enough."""
