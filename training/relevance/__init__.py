"""How the relevance score's constants are fitted and judged; see `docs/relevance.md`."""
