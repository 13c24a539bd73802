"""The names of PyTorch that the benchmark's script uses, over lists of numbers, for the test
`over_the_processor`. All work is done at once. `WRONG_ELEMENT` makes the last element that `mul`
writes wrong."""

import math
import os
import struct

WRONG = os.environ.get("WRONG_ELEMENT") is not None
__version__ = "for tests"


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Tensor:
    def __init__(self, values, start=0, end=None):
        self.values, self.start = values, start
        self.end = len(values) if end is None else end

    def items(self):
        return self.values[self.start : self.end]

    def numel(self):
        return self.end - self.start

    def each(self, operation, other):
        other = other.items() if isinstance(other, Tensor) else [other] * self.numel()
        return Tensor([operation(a, b) for a, b in zip(self.items(), other)])

    def __add__(self, other):
        return self.each(lambda a, b: a + b, other)

    __radd__ = __add__

    def __mod__(self, other):
        return self.each(math.fmod, other)

    def __mul__(self, other):
        return self.each(lambda a, b: a * b, other)

    def __ne__(self, other):
        return self.each(lambda a, b: a != b, other)

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, end, _ = index.indices(self.numel())
            return Tensor(self.values, self.start + start, self.start + end)
        return Tensor(self.values, self.start + index, self.start + index + 1)

    def __setitem__(self, index, value):
        self.values[self.start + index] = single(value)

    def __int__(self):
        return int(self.item())

    def item(self):
        (value,) = self.items()
        return value

    def float(self):
        return Tensor([single(value) for value in self.items()])

    def cpu(self):
        return Tensor(self.items())

    def nonzero(self):
        return [Tensor([at]) for at, value in enumerate(self.items()) if value]

    def copy_(self, source, non_blocking=False):
        if self.numel() != source.numel():
            raise ValueError("the lengths differ")
        self.values[self.start : self.end] = source.items()


def zeros(length, device=None, pin_memory=False):
    return Tensor([0.0] * length)


def arange(length):
    return Tensor([float(at) for at in range(length)])


def equal(left, right):
    return left.items() == right.items()


def captured(operation):
    if cuda.CUDAGraph.current is not None:
        cuda.CUDAGraph.current.operations.append(operation)
    else:
        operation()


def mul(source, factor, out):
    def operation():
        out.copy_(source * factor)
        if WRONG:
            out[out.numel() - 1] = out[out.numel() - 1].item() + 1

    captured(operation)


def add(left, right, out):
    captured(lambda: out.copy_(left + right))


class Context:
    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class version:
    cuda = "none"


class cuda:
    @staticmethod
    def is_available():
        return True

    @staticmethod
    def synchronize():
        pass

    class Stream:
        def wait_event(self, event):
            assert event.recorded

        def synchronize(self):
            pass

    class Event:
        recorded = False

        def record(self, stream):
            self.recorded = True

        def synchronize(self):
            pass

    stream = Context

    class CUDAGraph:
        current = None

        def __init__(self):
            self.operations = []

        def replay(self):
            for operation in self.operations:
                operation()

    class graph:
        def __init__(self, graph, stream):
            self.graph = graph

        def __enter__(self):
            cuda.CUDAGraph.current = self.graph

        def __exit__(self, *_):
            cuda.CUDAGraph.current = None
