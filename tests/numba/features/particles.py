"""Particles as records with nested arrays, of kinds in an enumeration; below the floor is an error with `debug`."""

import enum

import numpy as np
from numba import cuda


class Kind(enum.IntEnum):
    FREE = 0
    FIXED = 1


PARTICLE = np.dtype([("position", "f8", (2,)), ("velocity", "f8", (2,)), ("kind", "i4")], align=True)


@cuda.jit(debug=True, opt=False)
def move(particles, gravity, step):
    i = cuda.grid(1)
    if i < particles.size and particles[i].kind != Kind.FIXED:
        particle = particles[i]
        particle.velocity[1] -= gravity * step
        for axis in range(2):
            particle.position[axis] += particle.velocity[axis] * step
        if particle.position[1] < 0.0:
            raise ValueError("a particle is below the floor")


@cuda.jit
def copy_last(particles, one):
    if cuda.grid(1) == 0:
        one["kind"] = particles.kind.sum()
        one.position[0] = particles["position"][:, 0].max()


particles = np.zeros(40, PARTICLE)
particles["position"][:, 1] = 1.0
particles["velocity"][:, 0] = np.arange(40)
particles["kind"][::4] = Kind.FIXED
move[2, 32](particles, 9.81, 0.25)
free = particles["kind"] == Kind.FREE
assert np.allclose(particles["position"][free, 0], np.arange(40)[free] / 4)
assert (particles["position"][~free] == [0, 1]).all()

one = np.zeros(1, PARTICLE)[0]
copy_last[1, 32](particles, one)
assert (one["kind"], one["position"][0]) == (10, 39 / 4)

said = ""
try:
    for _ in range(10):
        move[2, 32](particles, 9.81, 0.25)
except ValueError as error:
    said = str(error)
assert "tid=[0, 0, 1] ctaid=[0, 0, 0]: a particle is below the floor" in said
# expect: 2 kernels, 3 launches: 3 verified
