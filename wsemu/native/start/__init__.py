"""A folder for the `PYTHONPATH` of programs on the driver: its `sitecustomize` adapts packages when they are
imported."""
