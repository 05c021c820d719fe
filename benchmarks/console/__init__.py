"""The console in a browser: what it costs the gateway, and whether long lists move smoothly."""
