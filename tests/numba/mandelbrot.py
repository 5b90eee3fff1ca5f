"""The Mandelbrot set: a device function with complex numbers, a grid of two dimensions with strides."""

import numpy as np
from numba import complex64, cuda, uint8


@cuda.jit("uint8(float32, float32, int32)", device=True)
def escape(x, y, limit):
    c = complex64(complex(x, y))
    z = complex64(0.0j)
    for n in range(limit):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return uint8(n)
    return uint8(255)


@cuda.jit
def create_fractal(min_x, max_x, min_y, max_y, image, limit):
    height, width = image.shape
    pixel_x = (max_x - min_x) / width
    pixel_y = (max_y - min_y) / height
    start_x, start_y = cuda.grid(2)
    step_x, step_y = cuda.gridsize(2)
    for x in range(start_x, width, step_x):
        for y in range(start_y, height, step_y):
            image[y, x] = escape(min_x + x * pixel_x, min_y + y * pixel_y, limit)


image = np.zeros((32, 48), dtype=np.uint8)
d_image = cuda.to_device(image)
create_fractal[(2, 2), (16, 8)](-2.0, 1.0, -1.0, 1.0, d_image, 20)
d_image.copy_to_host(image)
assert image[16, 32] == 255
assert image[0, 0] == 0
print(f"{np.count_nonzero(image == 255)} of {image.size} points are in the set")
# expect: 1 kernel, 1 launch: 1 verified
