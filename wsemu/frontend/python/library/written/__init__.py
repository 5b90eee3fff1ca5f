"""Functions of Python's and NumPy's libraries, written as kernel code and inlined at their calls.

All of the operations that they emit have the location of the call.
"""
