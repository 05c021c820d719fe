"""Commands that ask a gateway for its tools, and call them."""
