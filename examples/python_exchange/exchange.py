"""PyTorch and a module in Rust exchange tensors by DLPack, in both directions, on one GPU.

PyTorch works on two streams of its own, and the module on another. No call waits for the GPU: each
exchange makes the importer's stream wait for the exporter's. Every element is compared, on the GPU,
and the counts of wrong elements are read at the end.

With `--without-wait` the waits are left out by hand: the producer is told no stream, or the
consumer works on another stream than it names. The program then succeeds only if results are wrong.
"""

import argparse
import sys

import python_exchange
import torch
from by_hand import OnAnotherStream, Unordered

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--without-wait", action="store_true")
parser.add_argument("--rounds", type=int, default=200)
parser.add_argument("--elements", type=int, default=1 << 20)
# About 5 ms each on an H200: longer than the host takes for a round.
parser.add_argument("--sleep-cycles", type=int, default=10_000_000)
parser.add_argument("--delay", type=int, default=80, help="writes of 256 MiB before our results")
options = parser.parse_args()

program = python_exchange.Program("cuda")
produce, consume, idle = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
shape = (4, options.elements // 4)
print(f"{program.device}, PyTorch {torch.__version__}, {options.rounds} rounds")


def to_us(round):
    """PyTorch writes, the module reads: wrong elements of the module's result, on the GPU."""
    with torch.cuda.stream(produce):
        x = torch.full(shape, -1.0, device="cuda")
        torch.cuda._sleep(options.sleep_cycles)
        x.fill_(round)
        given = Unordered(x) if options.without_wait else x
        y = program.doubled(given)
    with torch.cuda.stream(consume):
        return (torch.from_dlpack(y) != 2.0 * round).sum()


def to_them(round):
    """The module writes, PyTorch reads."""
    y = program.filled(list(shape), float(round), delay=options.delay)
    with torch.cuda.stream(consume):
        given = OnAnotherStream(y, idle.cuda_stream) if options.without_wait else y
        t = torch.from_dlpack(given)
        wrong = (t != float(round)).sum()
        if options.without_wait:
            # The memory is freed behind the named stream: without this, other data would be read.
            consume.synchronize()
        return wrong


def through_us(round):
    """One memory goes from PyTorch through the module back to PyTorch."""
    with torch.cuda.stream(produce):
        x = torch.full(shape, -1.0, device="cuda")
        torch.cuda._sleep(options.sleep_cycles)
        x.fill_(-7.0)
        given = Unordered(x) if options.without_wait else x
        y = program.passed_on(given, float(round))
    with torch.cuda.stream(consume):
        t = torch.from_dlpack(y)
        assert t.data_ptr() == x.data_ptr(), "the exchange made a copy"
        t += 1.0
        # Shows a write of `produce` that comes last: behind the handoffs there is none.
        consume.wait_stream(produce)
        wrong = (t != round + 1.0).sum()
        if options.without_wait:
            torch.cuda.synchronize()
        return wrong


failed = False
for name, exchange in [("to us", to_us), ("to them", to_them), ("through us", through_us)]:
    exchange(3)  # loads modules and allocates
    torch.cuda.synchronize()
    counts = []
    for round in range(1, options.rounds + 1):
        counts.append(exchange(round))
        if options.without_wait or round % 16 == 0:
            # Bounds the memory in flight, and lets nothing of an earlier round hide a missing wait.
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    wrong = sum(1 for count in counts if count.item() > 0)
    print(f"{name}: {wrong} of {options.rounds} rounds wrong")
    failed |= (wrong == 0) if options.without_wait else (wrong > 0)

if not options.without_wait:
    # The default streams, a copy, and no stream at all.
    y = program.filled(list(shape), 5.0, delay=options.delay)
    wrong = (torch.from_dlpack(y) != 5.0).sum().item()
    print(f"on the legacy default stream: {wrong} elements wrong")
    failed |= wrong > 0

    # The same memory, by number 2: the default stream of this thread.
    program.doubled(torch.ones(8, device="cuda"))
    y = program.filled(list(shape), 6.0, delay=options.delay)
    thread = torch.cuda.ExternalStream(2)
    with torch.cuda.stream(thread):
        t = torch.from_dlpack(y.__dlpack__(stream=2, max_version=(1, 1)))
        wrong = (t != 6.0).sum()
        del t
    wrong = wrong.item()
    print(f"on the default stream of the thread: {wrong} elements wrong")
    failed |= wrong > 0

    y = program.filled(list(shape), 7.0, delay=options.delay)
    with torch.cuda.stream(consume):
        capsule = y.__dlpack__(stream=consume.cuda_stream, copy=True, max_version=(1, 1))
        copy, own = torch.from_dlpack(capsule), torch.from_dlpack(y)
        assert copy.data_ptr() != own.data_ptr(), "a copy has memory of its own"
        own.fill_(8.0)
        wrong = (copy != 7.0).sum().item() + (own != 8.0).sum().item()
    print(f"a copy and its original: {wrong} elements wrong")
    failed |= wrong > 0

    y = program.filled(list(shape), 9.0, delay=options.delay)
    with torch.cuda.stream(consume):
        wrong = (torch.from_dlpack(y.__dlpack__(stream=-1, max_version=(1, 1))) != 9.0).sum().item()
    print(f"without a stream, behind the host's wait: {wrong} elements wrong")
    failed |= wrong > 0

program.synchronize()
if failed and options.without_wait:
    print("FAILED: no result is wrong, although the waits are left out")
elif failed:
    print("FAILED: results are wrong")
sys.exit(failed)
