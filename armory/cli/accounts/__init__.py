"""Commands over the accounts database."""
