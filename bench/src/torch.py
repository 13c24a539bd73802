"""The whole programs with PyTorch, for `cuda-rt-bench`, which runs this script and talks to it.

A line of JSON on standard input asks for something, and a line on standard output answers. The
kernels are PyTorch's own element-wise operations, `torch.mul` and `torch.add` with `out`, on the
same sizes. Events are made once and reused.
"""

import json
import sys
import threading
import time

try:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch has no GPU")
except Exception as error:  # whatever it is, the benchmark names it and goes on
    print(json.dumps({"error": str(error)}), flush=True)
    sys.exit(0)


def device(length):
    return torch.zeros(length, device="cuda")


def pinned(length):
    return torch.zeros(length, pin_memory=True)


def events(names):
    return [torch.cuda.Event() for _ in range(names)]


def compare(every, found, expected):
    """`expected` gives the elements of a range of indices."""
    count = found.numel() if every else 1
    wanted = expected(torch.arange(count))
    if every:
        good = torch.equal(found, wanted)
    else:
        good = found[0].item() == wanted[0].item()
    if not good:
        wrong = int((found[:count] != wanted).nonzero()[0])
        raise RuntimeError(f"element {wrong} is {found[wrong]} instead of {wanted[wrong]}")


def fill(every, target, elements, first):
    """`elements` gives all elements, `first` the first one."""
    if every:
        target.copy_(elements(torch.arange(target.numel())))
    else:
        target[0] = first


class Timed:
    def __enter__(self):
        self.processor = time.process_time()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.start
        self.processor = time.process_time() - self.processor

    def answer(self, latencies=()):
        return {"wall": self.wall, "processor": self.processor, "latencies": list(latencies)}


def element(item, index):
    return (item % 1000 + index % 1000 + 1).float()


def first(length):
    return (torch.arange(length) % 1000 + 1).float()


class SmallItems:
    def __init__(self, len, slots):
        self.upload, self.compute, self.download = (torch.cuda.Stream() for _ in range(3))
        self.slots = [
            (pinned(len), device(len), device(len), pinned(len), events(3)) for _ in range(slots)
        ]
        torch.cuda.synchronize()

    def enqueue(self, slot):
        source, a, b, target, (uploaded, computed, downloaded) = slot
        with torch.cuda.stream(self.upload):
            a.copy_(source, non_blocking=True)
        uploaded.record(self.upload)
        self.compute.wait_event(uploaded)
        with torch.cuda.stream(self.compute):
            for _ in range(2):
                torch.mul(a, 2.0, out=b)
                torch.mul(b, 2.0, out=a)
        computed.record(self.compute)
        self.download.wait_event(computed)
        with torch.cuda.stream(self.download):
            target.copy_(a, non_blocking=True)
        downloaded.record(self.download)

    def collect(self, item, every):
        slot = self.slots[item % len(self.slots)]
        slot[4][2].synchronize()
        compare(every, slot[3], lambda index: element(item, index) * 16)

    def round(self, items, every):
        slots = len(self.slots)
        with Timed() as timed:
            for item in range(items):
                if item >= slots:
                    self.collect(item - slots, every)
                slot = self.slots[item % slots]
                fill(every, slot[0], lambda index: element(item, index), item % 1000 + 1)
                self.enqueue(slot)
            for item in range(items - slots, items):
                self.collect(item, every)
        return timed.answer()

    def burst(self):
        start = time.perf_counter()
        for slot in self.slots:
            self.enqueue(slot)
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        return took / len(self.slots)


class DecodeChunks:
    def __init__(self, len, slots, launches):
        self.decode, self.download = torch.cuda.Stream(), torch.cuda.Stream()
        self.first, self.state, self.launches = first(len), [device(len), device(len)], launches
        self.slots = [(device(len), pinned(len), events(2)) for _ in range(slots)]
        torch.cuda.synchronize()

    def chain(self):
        with torch.cuda.stream(self.decode):
            for launch in range(self.launches):
                source, target = self.state[launch % 2], self.state[(launch + 1) % 2]
                torch.mul(source, 2.0 if launch == 0 else 1.0, out=target)

    def copies(self, slot):
        chunk, target, (decoded, downloaded) = slot
        with torch.cuda.stream(self.decode):
            chunk.copy_(self.state[0])
        decoded.record(self.decode)
        self.download.wait_event(decoded)
        with torch.cuda.stream(self.download):
            target.copy_(chunk, non_blocking=True)
        downloaded.record(self.download)

    def collect(self, chunk, every):
        _, target, (_, downloaded) = self.slots[chunk % len(self.slots)]
        downloaded.synchronize()
        compare(every, target, lambda index: element(0, index) * 2.0 ** (chunk + 1))

    def round(self, items, every):
        self.state[0].copy_(self.first)
        torch.cuda.synchronize()
        slots = len(self.slots)
        with Timed() as timed:
            for chunk in range(items):
                self.chain()
                if chunk >= slots:
                    self.collect(chunk - slots, every)
                self.copies(self.slots[chunk % slots])
            for chunk in range(items - slots, items):
                self.collect(chunk, every)
        return timed.answer()

    def burst(self):
        start = time.perf_counter()
        for slot in self.slots:
            self.chain()
            self.copies(slot)
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        return took / len(self.slots)


class Diamond:
    def __init__(self, len):
        self.compute, self.half = torch.cuda.Stream(), len // 2
        self.sum, (self.added,) = device(len), events(1)
        self.branches = [
            (torch.cuda.Stream(), pinned(len), device(len), device(len), pinned(half), events(2))
            for half in [self.half] * 2
        ]
        torch.cuda.synchronize()

    def element(self, item, side, index):
        return (item % 500 + (index + 1) % 500 + side * 7 + 1).float()

    def enqueue(self):
        for branch, factor in zip(self.branches, (2.0, 3.0)):
            stream, source, uploaded, scaled, _, (ready, _) = branch
            with torch.cuda.stream(stream):
                uploaded.copy_(source, non_blocking=True)
                torch.mul(uploaded, factor, out=scaled)
            ready.record(stream)
            self.compute.wait_event(ready)
        with torch.cuda.stream(self.compute):
            torch.add(self.branches[0][3], self.branches[1][3], out=self.sum)
        self.added.record(self.compute)
        for side, (stream, _, _, _, target, (_, downloaded)) in enumerate(self.branches):
            stream.wait_event(self.added)
            with torch.cuda.stream(stream):
                target.copy_(self.sum[side * self.half : (side + 1) * self.half], non_blocking=True)
            downloaded.record(stream)

    def fill(self, every, item):
        for side, branch in enumerate(self.branches):
            for half in range(2):
                start = half * self.half
                elements = lambda index: self.element(item, side, index + start)
                value = item % 500 + (start + 1) % 500 + side * 7 + 1
                fill(every, branch[1][start : start + self.half], elements, value)

    def collect(self, every, item):
        for half, branch in enumerate(self.branches):
            branch[5][1].synchronize()
            part = lambda side, index: self.element(item, side, index + half * self.half)
            compare(every, branch[4], lambda index: part(0, index) * 2 + part(1, index) * 3)

    def round(self, items, every):
        with Timed() as timed:
            for item in range(items):
                self.fill(every, item)
                self.enqueue()
                self.collect(every, item)
        return timed.answer()

    def burst(self):
        start = time.perf_counter()
        self.enqueue()
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        return took


class Graph:
    def __init__(self, len, launches):
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.first, self.data = first(len), [device(len), device(len)]
        torch.mul(self.data[0], 1.0, out=self.data[1])
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            for launch in range(launches):
                source, target = self.data[launch % 2], self.data[(launch + 1) % 2]
                torch.mul(source, 2.0 if launch == 0 else 1.0, out=target)

    def replays(self, count):
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                self.graph.replay()

    def round(self, items, every):
        self.data[0].copy_(self.first)
        torch.cuda.synchronize()
        with Timed() as timed:
            self.replays(items)
            self.stream.synchronize()
        compare(every, self.data[0].cpu(), lambda index: element(0, index) * 2.0**items)
        return timed.answer()

    def burst(self):
        start = time.perf_counter()
        self.replays(16)
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        return took / 16


class Requests:
    def __init__(self, len, threads, streams):
        self.streams = [torch.cuda.Stream() for _ in range(streams)]
        self.clients = [
            (pinned(len), device(len), device(len), pinned(len), events(1)[0])
            for _ in range(threads)
        ]
        torch.cuda.synchronize()

    def serve(self, thread, requests, every, start, latencies, errors):
        source, uploaded, scaled, target, answered = self.clients[thread]
        stream = self.streams[thread % len(self.streams)]
        start.wait()
        try:
            for request in range(requests):
                asked = time.perf_counter()
                base = request % 1000 + thread * 64 + 1
                fill(every, source, lambda index: (base + index % 1000).float(), base)
                with torch.cuda.stream(stream):
                    uploaded.copy_(source, non_blocking=True)
                    torch.mul(uploaded, 2.0, out=scaled)
                    target.copy_(scaled, non_blocking=True)
                answered.record(stream)
                answered.synchronize()
                compare(every, target, lambda index: (base + index % 1000).float() * 2)
                latencies.append(time.perf_counter() - asked)
        except Exception as error:
            errors.append(error)

    def round(self, items, every):
        start = threading.Barrier(len(self.clients) + 1)
        latencies, errors = [], []
        each = items // len(self.clients)
        threads = [
            threading.Thread(
                target=self.serve, args=(thread, each, every, start, latencies, errors)
            )
            for thread in range(len(self.clients))
        ]
        for thread in threads:
            thread.start()
        start.wait()
        with Timed() as timed:
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
        return timed.answer(latencies)

    def burst(self):
        return None


PROGRAMS = {
    "small-items": SmallItems,
    "decode-chunks": DecodeChunks,
    "diamond": Diamond,
    "graph": Graph,
    "requests": Requests,
}


def main():
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda}), flush=True)
    opened = []
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["ask"] == "open":
                program = asked["program"]
                opened.append(PROGRAMS[program.pop("program")](**program))
                answer = {"opened": len(opened) - 1}
            elif asked["ask"] == "round":
                answer = opened[asked["at"]].round(asked["items"], asked["every"])
            else:
                answer = {"burst": opened[asked["at"]].burst()}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
