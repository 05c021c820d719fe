"""The configuration file as people edit it through the gateway. Read by `runtime.rest` only."""
