"""Backends other than the emulator: the same source, compiled for a GPU.  Nothing else imports this."""
