"""The identity of the device that programs see: its CUDA attributes for an architecture."""

from __future__ import annotations

from wsemu.model.arch import WARP, Arch

MEMORY = 16 << 30
"""bytes of device memory that programs see"""
NAME = "wsemu"


def attributes(arch: Arch, sms: int = 0) -> dict[int, int]:
    """Return the attributes of a GPU of this architecture by their numbers in `CUdevice_attribute`."""
    has, limits = arch.multiprocessor, arch.limits
    major, minor = divmod(arch.number, 10)
    numbers = {
        1: limits.threads, 8: limits.static_shared, 9: 64 << 10, 10: WARP, 11: (1 << 31) - 1, 12: has.registers,
        13: 1_785_000, 14: 512, 15: 1, 16: sms or has.most, 19: 1, 30: 512, 31: 1, 36: 2_619_000, 37: 5120,
        38: 50 << 20, 39: has.threads, 40: 3, 41: 1, 50: 0, 51: 32, 75: major, 76: minor, 78: 1, 79: 1, 80: 1,
        81: has.shared, 82: has.registers, 83: 1, 87: 2, 89: 1, 90: 1, 91: 0, 95: 1, 97: limits.shared, 99: 1,
        102: 1, 106: has.ctas, 111: has.reserved, 115: 1, 120: int(arch.cluster > 1), 127: int(arch.number >= 90),
        129: 0,
    }  # fmt: skip
    numbers |= {2 + n: size for n, size in enumerate(limits.block)}
    numbers |= {5 + n: size for n, size in enumerate(limits.grid)}
    textures = {21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048,
                42: 32768, 43: 2048, 55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 69: 268435456,
                70: 131072, 71: 65000, 72: 2097120}  # fmt: skip
    return numbers | textures
