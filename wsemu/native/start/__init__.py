"""The folder in `PYTHONPATH` of programs that run as they are: its `sitecustomize` prepares packages as they load."""
