"""The pipelines of decode_chunks, process_batches and triple_buffer with PyTorch streams, for
docs/RESULTS.md.

    python3 docs/pytorch/pipelines.py

The kernel is written in Triton: sixteen dependent multiply-adds for each element, like
`device_kernels::process`. Every barrier is written by hand. Without any one of them the program
still runs.
"""

import queue
import statistics
import threading
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


def triple_buffer(buffers, items=64, elements=1 << 14, kernels=64):
    """Wall time of uneven stages, and what part of it the longer of the two takes.

    Every eighth item takes the GPU nine times as long, another one takes the host that
    long. The kernels are replayed as a CUDA graph, or launching them from Python would be the
    longest stage. The host's work is done by a thread, which gives slots back.
    """
    upload, download = torch.cuda.Stream(), torch.cuda.Stream()
    compute = torch.cuda.Stream(priority=-1)
    slots = lambda: [torch.ones(elements, pin_memory=True) for _ in range(buffers)]
    source, target = slots(), slots()
    device = [[torch.empty(elements, device="cuda") for _ in range(2)] for _ in range(buffers)]
    graphs = []
    for pair in device:
        launch(*pair)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=compute):
            for _ in range(kernels):
                launch(*pair)
        graphs.append(graph)

    def weight(item, long):
        return 9 if item % 8 == long else 1

    def replay(slot, times):
        with torch.cuda.stream(compute):
            for _ in range(times):
                graphs[slot].replay()

    replay(0, 8)
    short = min(wall_ms(lambda: replay(0, 8))[0] for _ in range(5)) / 8e3

    def run():
        free, full = queue.SimpleQueue(), queue.SimpleQueue()
        for slot in range(buffers):
            free.put(slot)

        def sink():
            for _ in range(items):
                item, slot, done = full.get()
                done.synchronize()
                time.sleep(short * weight(item, 7))
                free.put(slot)

        worker = threading.Thread(target=sink)
        worker.start()
        for item in range(items):
            slot = free.get()
            with torch.cuda.stream(upload):
                device[slot][0].copy_(source[slot], non_blocking=True)
            compute.wait_event(mark(upload))
            replay(slot, weight(item, 3))
            download.wait_event(mark(compute))
            with torch.cuda.stream(download):
                target[slot].copy_(device[slot][1], non_blocking=True)
            full.put((item, slot, mark(download)))
        worker.join()

    wall = wall_ms(run)[0]
    return wall, 100 * short * 1e3 * sum(weight(item, 3) for item in range(items)) / wall


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
    for buffers in range(1, 6):
        triple_buffer(buffers)
        runs = [triple_buffer(buffers) for _ in range(5)]
        wall, part = (statistics.median(values) for values in zip(*runs))
        name = f"triple_buffer    N = {buffers}"
        print(f"{name:<42}{wall:9.2f} ms  {part:6.1f} % of the bound")
    for streams, buffers in [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (3, 4)]:
        process_batches(streams, buffers)
        wall = statistics.median(process_batches(streams, buffers) for _ in range(5))
        print(f"process_batches  {streams} stream(s), N = {buffers}          {wall:9.2f} ms")


if __name__ == "__main__":
    main()
