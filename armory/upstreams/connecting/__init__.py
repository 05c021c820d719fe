"""From a configured upstream to a live link: starting, negotiating, remembering."""
