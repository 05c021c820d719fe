"""What is served: snapshots as bytes, for everybody and for single principals."""
