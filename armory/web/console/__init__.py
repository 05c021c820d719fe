"""The console: static files, and the page that a browser opens."""
