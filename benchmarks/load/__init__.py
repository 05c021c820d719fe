"""Load benchmark: Armory beside a bare reverse proxy and its peers, on one upstream, in one run."""
