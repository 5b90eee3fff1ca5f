"""A folder for the `PYTHONPATH` of the processes that a program starts: its `sitecustomize` enables wsemu in them."""
