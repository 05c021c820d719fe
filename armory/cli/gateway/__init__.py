"""Commands that run a gateway, ask a running one, or change its configuration."""
