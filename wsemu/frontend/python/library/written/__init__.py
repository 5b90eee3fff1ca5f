"""Functions of Python's and NumPy's libraries that are kernels' code themselves, walked where they are called.

All of the operations that they emit have the location of the call.
"""
