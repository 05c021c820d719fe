"""How the relevance score's constants are fitted and judged; see `docs/retrieval.md`."""
