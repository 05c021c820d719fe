"""The endpoints and pages of the gateway as an OAuth authorization server."""
