"""Questions of an upstream to clients within one session: whose each is, and who is asked."""
