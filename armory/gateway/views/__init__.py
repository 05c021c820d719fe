"""Views: snapshots prepared for serving, for everybody and for single principals."""
