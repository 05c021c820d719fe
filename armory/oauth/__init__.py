"""What both sides of OAuth need: asking an authorization server, and what it says about itself."""
