"""Who is it, and who may: authentication and policy."""
