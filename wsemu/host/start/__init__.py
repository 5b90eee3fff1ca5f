"""The folder in `PYTHONPATH` of processes that a program starts: its `sitecustomize` hands wsemu on to them."""
