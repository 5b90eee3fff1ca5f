"""`python -m wsemu`: the `wsemu` command."""

from wsemu.cli import main

main()
