"""Run unmodified CUDA programs without a GPU: a replacement driver, whose launches the emulator runs and checks.

The program runs in its own process, with the libraries of `c/` instead of CUDA's.  They send what the program does to
the server here: memory, modules and launches.  The memory is a file that both processes map.
"""
