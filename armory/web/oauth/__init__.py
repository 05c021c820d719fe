"""The endpoints and pages of the gateway as an authorization server."""
