"""CuPy and a module in Rust exchange arrays by `__cuda_array_interface__`, in both directions.

The interface names a stream, and the consumer orders itself behind it. The module waits on the GPU
for the stream that CuPy names. CuPy's host waits for the stream that the module names, which is the
legacy default stream: it waits for the handoff.

With `--without-wait` the entry `stream` is replaced by `None` by hand, and the program succeeds
only if results are wrong.
"""

import argparse
import sys

import cupy
import python_exchange
from by_hand import NothingPending

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--without-wait", action="store_true")
parser.add_argument("--rounds", type=int, default=100)
parser.add_argument("--elements", type=int, default=1 << 20)
parser.add_argument("--sleep-cycles", type=int, default=10_000_000)
parser.add_argument("--delay", type=int, default=80, help="writes of 256 MiB before our results")
options = parser.parse_args()

pause = cupy.RawKernel(
    r"""
extern "C" __global__ void pause(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
""",
    "pause",
)
program = python_exchange.Program("cuda")
shape = (4, options.elements // 4)
print(f"{program.device}, CuPy {cupy.__version__}, {options.rounds} rounds")


def to_us(round, stream):
    """CuPy writes, the module reads."""
    with stream:
        x = cupy.full(shape, -1.0, dtype=cupy.float32)
        pause((1,), (1,), (options.sleep_cycles,))
        x.fill(round)
        y = program.doubled_by_interface(NothingPending(x) if options.without_wait else x)
        t = cupy.from_dlpack(y)
        wrong = int((t != 2.0 * round).sum())  # waits for the stream
    return wrong


def to_them(round, stream):
    """The module writes, CuPy reads."""
    y = program.filled(list(shape), float(round), delay=options.delay)
    with stream:
        t = cupy.asarray(NothingPending(y) if options.without_wait else y)
        wrong = int((t != float(round)).sum())  # waits for the stream
    return wrong


failed = False
streams = [("a non-blocking stream", cupy.cuda.Stream(non_blocking=True))]
if not options.without_wait:
    # These wait for the legacy default stream anyway.
    streams.append(("a blocking stream", cupy.cuda.Stream()))
    streams.append(("the default stream", cupy.cuda.Stream.null))
for name, exchange in [("to us", to_us), ("to them", to_them)]:
    for where, stream in streams:
        exchange(3, stream)  # compiles kernels and allocates
        cupy.cuda.runtime.deviceSynchronize()
        wrong = 0
        for round in range(1, options.rounds + 1):
            wrong += exchange(round, stream) > 0
            program.synchronize()
        print(f"{name}, on {where}: {wrong} of {options.rounds} rounds wrong")
        failed |= (wrong == 0) if options.without_wait else (wrong > 0)

program.synchronize()
if failed and options.without_wait:
    print("FAILED: no result is wrong, although the waits are left out")
elif failed:
    print("FAILED: results are wrong")
sys.exit(failed)
