"""The console: its static files and the page that loads them."""
