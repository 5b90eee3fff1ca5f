import numpy as np
from kernels import fill, scale

from wsemu import cuda


class Exported:
    def __init__(self, array, stream):
        self.kept = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"stream": stream}


producer, consumer = cuda.stream(), cuda.stream()
d = cuda.device_array(64, np.float32)
fill[2, 32, producer](d, 1.0)
exported = Exported(d, None)
producer.synchronize()  # fixed
scale[2, 32, consumer](cuda.as_cuda_array(exported), 2.0)  # expect: stream-race
cuda.synchronize()
