"""One file per migration, applied in order; a released one is never edited."""
