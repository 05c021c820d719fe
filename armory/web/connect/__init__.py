"""The pages on which people connect their own accounts at upstreams."""
