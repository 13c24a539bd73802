"""The pipelines of decode_chunks and process_batches with PyTorch streams, for docs/RESULTS.md.

    python3 docs/pytorch/pipelines.py

The kernel is Triton's: sixteen dependent multiply-adds an element, as `device_kernels::process`. Every barrier is written
by hand; leave any of them out and the program still runs.
"""

import statistics
import time

import torch
import triton
import triton.language as tl


@triton.jit
def process(source, target, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    value = tl.load(source + index, mask=inside)
    for _ in tl.static_range(16):
        value = value * 1.0001 + 0.5
    tl.store(target + index, value, mask=inside)


def launch(source, target):
    process[(triton.cdiv(source.numel(), 1024),)](source, target, source.numel(), BLOCK=1024)


def mark(stream, timing=False):
    event = torch.cuda.Event(enable_timing=timing)
    event.record(stream)
    return event


def wall_ms(run):
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, result


def decode_chunks(streams, buffers, pinned=True, chunks=64, elements=1 << 24, kernels=64):
    """Wall time and the part of it between each chunk's first kernel and its last."""
    decode = torch.cuda.Stream(priority=-1)
    download = torch.cuda.Stream() if streams == 2 else decode
    state = [torch.zeros(elements, device="cuda") for _ in range(2)]
    device = [torch.empty(elements, device="cuda") for _ in range(buffers)]
    host = [torch.empty(elements, pin_memory=pinned) for _ in range(buffers)]

    def run():
        marks, downloaded = [], [None] * buffers
        for chunk in range(chunks):
            slot = chunk % buffers
            with torch.cuda.stream(decode):
                if downloaded[slot]:
                    decode.wait_event(downloaded[slot])
                start = mark(decode, timing=True)
                for _ in range(kernels):
                    launch(state[0], state[1])
                    state.reverse()
                device[slot].copy_(state[0])
                marks.append((start, mark(decode, timing=True)))
            download.wait_event(mark(decode))
            with torch.cuda.stream(download):
                host[slot].copy_(device[slot], non_blocking=True)
            downloaded[slot] = mark(download)
            if streams == 1:
                torch.cuda.synchronize()
        return marks

    wall, marks = wall_ms(run)
    return wall, 100 * sum(start.elapsed_time(end) for start, end in marks) / wall


def process_batches(streams, buffers, batches=200, elements=1 << 20, kernels=16):
    """Wall time of uploading, processing and downloading each batch."""
    compute = torch.cuda.Stream(priority=-1)
    upload = torch.cuda.Stream() if streams >= 2 else compute
    download = torch.cuda.Stream() if streams == 3 else upload
    source = [torch.ones(elements, pin_memory=True) for _ in range(buffers)]
    device = [[torch.empty(elements, device="cuda") for _ in range(2)] for _ in range(buffers)]
    target = [torch.empty(elements, pin_memory=True) for _ in range(buffers)]

    def run():
        done = [None] * buffers
        for batch in range(batches):
            slot = batch % buffers
            if done[slot]:
                done[slot].synchronize()  # the host reads what came back, and fills the slot again
            pair = device[slot]
            with torch.cuda.stream(upload):
                pair[0].copy_(source[slot], non_blocking=True)
            compute.wait_event(mark(upload))
            with torch.cuda.stream(compute):
                for _ in range(kernels):
                    launch(pair[0], pair[1])
                    pair.reverse()
            download.wait_event(mark(compute))
            with torch.cuda.stream(download):
                target[slot].copy_(pair[0], non_blocking=True)
            done[slot] = mark(download)
            if streams == 1:
                done[slot].synchronize()

    return wall_ms(run)[0]


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name, arguments in [
        ("serial", (1, 1)),
        ("two streams, pageable", (2, 2, False)),
        ("two streams, one buffer", (2, 1)),
        ("two streams, two buffers", (2, 2)),
    ]:
        decode_chunks(*arguments)
        runs = [decode_chunks(*arguments) for _ in range(3)]
        wall, busy = (statistics.median(values) for values in zip(*runs))
        print(f"decode_chunks    {name:26} {wall:9.2f} ms  kernels busy {busy:6.2f} %")
    for streams, buffers in [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (3, 4)]:
        process_batches(streams, buffers)
        wall = statistics.median(process_batches(streams, buffers) for _ in range(5))
        print(f"process_batches  {streams} stream(s), N = {buffers}          {wall:9.2f} ms")


if __name__ == "__main__":
    main()
