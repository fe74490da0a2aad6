"""Compare calls fairly on a machine that is never quite quiet.

All calls of a case run in one new process, once a round, in a new random order each
round. What is kept is the quotient of two times of the same round, so that a slow
moment slows both, and of those quotients the median and the quartiles.
"""

import random
import statistics
import time

import torch


def interleave(calls, seconds, fewest=5, most=40):
    """Time every call once a round, for about `seconds`: {name: [time of each round]}.

    `calls` maps names to functions without arguments. Each runs twice beforehand, when
    caches fill and libraries choose their kernels.
    """
    for call in [*calls.values()] * 2:
        stopwatch(call)
    times = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(0).shuffle
    end = time.perf_counter() + seconds
    while len(times[order[0]]) < most:
        if time.perf_counter() > end and len(times[order[0]]) >= fewest:
            break
        shuffle(order)
        for name in order:
            times[name].append(stopwatch(calls[name]))
    return times


def stopwatch(call):
    """Seconds that one call takes, the work it leaves on a GPU included."""
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - start


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def quotient(times, others, factor=1.0):
    """Median and quartiles of factor * time / other time, and the number of rounds."""
    quotients = [factor * a / b for a, b in zip(times, others, strict=True)]
    low, median, high = statistics.quantiles(quotients, n=4)
    quartiles = [round(low, 3), round(high, 3)]
    return {"median": round(median, 3), "quartiles": quartiles, "rounds": len(times)}
