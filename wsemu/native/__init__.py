"""Programs as they are: a CUDA driver without a GPU, whose launches the emulator runs and checks.

The program runs in a process of its own, with the libraries of `c/` instead of CUDA's.  They send what the program
does to the server here: memory, modules and launches.  The memory is a file that both processes map.
"""
