"""Clicks grouped into sessions: a click within the timeout of the one before belongs to the same session.

The first kernel lets every click write its own element, and the first of a session those of all: nobody says in which
order.  In the second one each element has one writer.
"""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def begins(user, time, n, timeout):
    return n == 0 or user[n] != user[n - 1] or time[n] - time[n - 1] > timeout


@cuda.jit
def racy_sessions(user, time, results, timeout):
    gid = cuda.grid(1)
    if gid >= len(user):
        return
    results[gid] = -1
    if begins(user, time, gid, timeout):
        results[gid] = gid
        look = gid + 1
        while look < len(user) and not begins(user, time, look, timeout):
            results[look] = gid
            look += 1


@cuda.jit
def sessions(user, time, results, timeout):
    gid = cuda.grid(1)
    if gid < len(user) and begins(user, time, gid, timeout):
        results[gid] = gid
        look = gid + 1
        while look < len(user) and not begins(user, time, look, timeout):
            results[look] = gid
            look += 1


user = np.repeat(np.arange(25), 4)
time = np.cumsum(np.random.default_rng(2).integers(1, 40, user.size))
d_user, d_time = cuda.to_device(user), cuda.to_device(time)
results = cuda.to_device(np.zeros(user.size, np.int64))
racy_sessions[4, 32](d_user, d_time, results, 30)
sessions[4, 32](d_user, d_time, results, 30)
first = np.r_[True, (user[1:] != user[:-1]) | (time[1:] - time[:-1] > 30)]
np.testing.assert_array_equal(results.copy_to_host(), np.maximum.accumulate(np.where(first, np.arange(user.size), 0)))
# expect: 2 kernels, 2 launches: 1 verified, 1 failed
