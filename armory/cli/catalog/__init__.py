"""Commands that list a gateway's tools, search them and call them."""
