"""The gateway as an OAuth authorization server in front of a provider that registers no clients."""
