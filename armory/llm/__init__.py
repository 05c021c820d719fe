"""The chat client that the agent and the synthetic queries share, and the token estimate."""
