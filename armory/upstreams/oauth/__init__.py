"""Access tokens toward upstreams: by client credentials, by a person's login."""
