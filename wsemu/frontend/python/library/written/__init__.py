"""Functions of Python's and NumPy's libraries that are kernels' code themselves, walked where they are called.

All of what they emit has the place of the call.
"""
