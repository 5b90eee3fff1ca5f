"""How a 32 x 64 tile is transferred, in accesses of 4 and of 16 bytes."""

from wsemu.patterns import CudaDMAStrided

for alignment in (4, 16):
    tile = CudaDMAStrided(1, 64, 64, 64, 256, 32, 4096, 256, alignment=alignment)
    print(tile.plan())
