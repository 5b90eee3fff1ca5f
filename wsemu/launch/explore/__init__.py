"""Launches that atomics steer, in all orders of these: see `search.py`."""
