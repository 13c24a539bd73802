"""Python's protocols, on the simulated device. Producers and consumers are stand-ins, by ctypes.

`cargo test -p cuda-rt-python-exchange` runs it with the module on the path. The tests of NumPy need
NumPy, and are counted as skipped without it.
"""

import ctypes
import faulthandler
import gc
import mmap
import os
import sys
import tempfile
import threading
import time
import unittest
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import python_exchange
from by_hand import OnAnotherStream, Unordered

try:
    import numpy
except ImportError:
    numpy = None

program = python_exchange.Program("sim", seed=int(os.environ.get("CUDA_RT_SEED", "0")))
COMPUTE, OTHER = program.streams
CPU, CUDA, CUDA_HOST = 1, 2, 3
READ_ONLY, IS_COPIED = 1, 2
LEN = 6


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


python = ctypes.pythonapi
python.PyCapsule_GetName.restype = ctypes.c_char_p
python.PyCapsule_GetName.argtypes = [ctypes.py_object]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

# Capsules keep the addresses of their names.
NAMES = {
    Versioned: (b"dltensor_versioned", b"used_dltensor_versioned"),
    Unversioned: (b"dltensor", b"used_dltensor"),
}


def name_of(capsule):
    return python.PyCapsule_GetName(capsule)


class Consumer:
    """Takes the tensor out of a capsule, as libraries do."""

    def __init__(self, capsule):
        name = name_of(capsule)
        [self.kind] = [kind for kind, names in NAMES.items() if names[0] == name]
        self.address = python.PyCapsule_GetPointer(capsule, name)
        self.managed = self.kind.from_address(self.address)
        self.tensor = self.managed.tensor
        python.PyCapsule_SetName(capsule, NAMES[self.kind][1])

    def end(self):
        self.managed.deleter(self.address)

    def shape(self):
        return self.tensor.shape[: self.tensor.ndim]

    def floats(self):
        """The elements: memory of the simulated device is memory of the host."""
        return list((ctypes.c_float * LEN).from_address(self.tensor.data))


class Producer:
    """A tensor of another library, in memory that `owner` holds. Counts what is done to it."""

    def __init__(self, address, kind=Versioned, knows_versions=True, device=(CUDA, 0), **changes):
        self.kind, self.knows_versions, self.device = kind, knows_versions, device
        self.asked, self.ended, self.capsules = [], 0, []
        self.numbers = (ctypes.c_int64 * 4)(2, 3, 3, 1)
        self.managed = kind()
        self.deleter = Deleter(self.end)
        self.managed.deleter = self.deleter
        self.managed.tensor.data = address
        self.managed.tensor.device = Device(*device)
        self.managed.tensor.ndim = 2
        self.managed.tensor.dtype = DataType(2, 32, 1)
        start = ctypes.addressof(self.numbers)
        numbers = ctypes.POINTER(ctypes.c_int64)
        self.managed.tensor.shape = ctypes.cast(start, numbers)
        self.managed.tensor.strides = ctypes.cast(start + 16, numbers)
        if kind is Versioned:
            self.managed.major, self.managed.minor = 1, 1
        for field, value in changes.items():
            at = self.managed if hasattr(self.managed, field) else self.managed.tensor
            setattr(at, field, value)

    def end(self, _):
        self.ended += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if "max_version" in asked and not self.knows_versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        address, name = ctypes.addressof(self.managed), NAMES[self.kind][0]
        self.capsules.append(python.PyCapsule_New(address, name, None))
        return self.capsules[-1]


class Interface:
    """An object with nothing but `__cuda_array_interface__`. It keeps the owner of its memory."""

    def __init__(self, owner=None, **entries):
        self.owner = owner
        self.entries = {"shape": (2, 3), "typestr": "<f4", "strides": None, "version": 3, **entries}

    @property
    def __cuda_array_interface__(self):
        return self.entries


def filled(value=1.5, delay=3):
    return program.filled([2, 3], value, delay)


def address_of(tensor):
    """The address, without a wait of the host."""
    consumer = Consumer(tensor.__dlpack__(stream=COMPUTE))
    address = consumer.tensor.data
    consumer.end()
    return address


def settled(expected):
    """Whether as many allocations are live, at last: some end on another thread."""
    gc.collect()
    end = time.monotonic() + 20
    while program.allocations() != expected and time.monotonic() < end:
        time.sleep(0.001)
    return program.allocations()


def eventually(holds):
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    # What comes too often comes now.
    time.sleep(0.01)
    return holds()


class Exports(unittest.TestCase):
    """Our tensors, taken by a consumer."""

    def setUp(self):
        self.assertEqual(settled(0), 0)

    def test_a_tensor_says_what_it_is(self):
        x = filled()
        self.assertEqual((x.shape, x.dtype), ((2, 3), "float32"))
        self.assertEqual(x.__dlpack_device__(), (CUDA, 0))
        for asked in [dict(), dict(max_version=(1, 0))]:
            consumer = Consumer(x.__dlpack__(stream=OTHER, **asked))
            tensor = consumer.tensor
            self.assertEqual((tensor.device.type, tensor.device.id), (CUDA, 0))
            dtype = tensor.dtype
            self.assertEqual((dtype.code, dtype.bits, dtype.lanes), (2, 32, 1))
            self.assertEqual(consumer.shape(), [2, 3])
            self.assertEqual(tensor.strides[:2], [3, 1])
            self.assertEqual(tensor.byte_offset, 0)
            consumer.end()

    def test_the_struct_is_of_the_version_that_the_consumer_reads(self):
        x = filled()
        for asked in [None, (0, 8)]:
            self.assertEqual(name_of(x.__dlpack__(stream=OTHER, max_version=asked)), b"dltensor")
        for asked in [(1, 0), (1, 1), (2, 0)]:
            capsule = x.__dlpack__(stream=OTHER, max_version=asked)
            self.assertEqual(name_of(capsule), b"dltensor_versioned")
            consumer = Consumer(capsule)
            managed = consumer.managed
            self.assertEqual((managed.major, managed.minor, managed.flags), (1, 1, 0))
            consumer.end()

    def test_a_capsule_ends_its_tensor_unless_a_consumer_took_it(self):
        for version in [None, (1, 0)]:
            before = 0
            x = filled(delay=0)
            capsule = x.__dlpack__(stream=OTHER, max_version=version)
            del x
            self.assertEqual(settled(before + 1), before + 1, "the capsule keeps the memory")
            del capsule
            self.assertEqual(settled(before), before, "the capsule ends the tensor")

            x = filled(delay=0)
            capsule = x.__dlpack__(stream=OTHER, max_version=version)
            consumer = Consumer(capsule)
            del x, capsule
            self.assertEqual(settled(before + 1), before + 1, "the consumer keeps the memory")
            self.assertEqual(program.values(filled(2.0)), [2.0] * LEN)
            consumer.end()
            self.assertEqual(settled(before), before, "the consumer ends the tensor")

    def test_consumers_share_memory_and_the_last_one_frees_it(self):
        before = 0
        x = filled(delay=0)
        first = Consumer(x.__dlpack__(stream=OTHER))
        second = Consumer(x.__dlpack__(stream=COMPUTE, max_version=(1, 0)))
        self.assertEqual(first.tensor.data, second.tensor.data)
        del x
        first.end()
        self.assertEqual(settled(before + 1), before + 1)
        second.end()
        self.assertEqual(settled(before), before)

    def test_a_capsule_may_end_on_any_thread(self):
        before = 0
        kept = [filled().__dlpack__(stream=OTHER) for _ in range(4)]
        consumers = [Consumer(filled().__dlpack__(stream=OTHER)) for _ in range(4)]

        def end():
            kept.clear()
            for consumer in consumers:
                consumer.end()

        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        self.assertEqual(settled(before), before)

    def test_a_number_that_names_no_stream_is_refused(self):
        x = filled()
        for number in [0, -2, -(1 << 40)]:
            with self.assertRaises(BufferError, msg=number):
                x.__dlpack__(stream=number)
        with self.assertRaises(TypeError):
            x.__dlpack__(stream="1")
        # A handle that the device does not know.
        with self.assertRaisesRegex(RuntimeError, "cuStreamWaitEvent"):
            x.__dlpack__(stream=77)
        with self.assertRaises(TypeError):
            x.__dlpack__(COMPUTE)

    def test_without_a_stream_the_host_waits(self):
        # A simulated device has no default streams.
        for number in [-1, None, 1, 2]:
            consumer = Consumer(filled(2.5, delay=20).__dlpack__(stream=number))
            self.assertEqual(consumer.floats(), [2.5] * LEN)
            consumer.end()

    def test_a_copy_is_made_if_and_only_if_it_is_asked_for(self):
        x = filled(4.0)
        address = address_of(x)
        for version, flags in [((1, 0), IS_COPIED), (None, None)]:
            copied = Consumer(x.__dlpack__(stream=-1, copy=True, max_version=version))
            self.assertNotEqual(copied.tensor.data, address)
            self.assertEqual(copied.shape(), [2, 3])
            self.assertEqual(copied.floats(), [4.0] * LEN)
            if version:
                self.assertEqual(copied.managed.flags, flags)
            for copy in [False, None]:
                shared = Consumer(x.__dlpack__(stream=-1, copy=copy, max_version=version))
                self.assertEqual(shared.tensor.data, address)
                if version:
                    self.assertEqual(shared.managed.flags, 0)
                shared.end()
            copied.end()
        empty = program.filled([2, 0], 1.0)
        copied = Consumer(empty.__dlpack__(stream=OTHER, copy=True))
        self.assertEqual((copied.shape(), copied.tensor.data), ([2, 0], None))
        copied.end()

    def test_another_device_than_the_memory_has_is_refused(self):
        x, host = filled(), program.counted(LEN)
        x.__dlpack__(stream=OTHER, dl_device=(CUDA, 0))
        for device in [(CPU, 0), (CUDA, 1), (CUDA_HOST, 0), (13, 0)]:
            with self.assertRaises(BufferError, msg=device):
                x.__dlpack__(stream=OTHER, dl_device=device)
        with self.assertRaisesRegex(BufferError, "take it where it is.*torch.from_dlpack"):
            x.__dlpack__(dl_device=(CUDA, 1))
        self.assertEqual(host.__dlpack_device__(), (CUDA_HOST, 0))
        for device in [None, (CUDA_HOST, 0), (CPU, 0)]:
            for version in [None, (1, 0)]:
                consumer = Consumer(host.__dlpack__(dl_device=device, max_version=version))
                found = consumer.tensor.device
                self.assertEqual((found.type, found.id), device or (CUDA_HOST, 0))
                consumer.end()
        with self.assertRaises(BufferError):
            host.__dlpack__(dl_device=(CUDA, 0))
        with self.assertRaises(BufferError):
            host.__dlpack__(dl_device=(CPU, 0), stream=OTHER)
        # A number orders the end of the uses of page-locked memory.
        Consumer(host.__dlpack__(stream=OTHER)).end()
        Consumer(host.__dlpack__(stream=-1)).end()

    def test_memory_of_the_gpu_is_copied_for_a_consumer_on_the_host(self):
        for version in [None, (1, 0)]:
            for copy in [None, True]:
                x = filled(2.5, delay=20)
                capsule = x.__dlpack__(dl_device=(CPU, 0), copy=copy, max_version=version)
                del x
                consumer = Consumer(capsule)
                found = consumer.tensor.device
                self.assertEqual((found.type, found.id), (CPU, 0))
                if version:
                    self.assertEqual(consumer.managed.flags, IS_COPIED)
                # Nothing is pending, and the copy keeps its memory.
                self.assertEqual(settled(0), 0)
                self.assertEqual((consumer.shape(), consumer.floats()), ([2, 3], [2.5] * LEN))
                consumer.end()
            with self.assertRaisesRegex(BufferError, "without a copy: .*copy=True"):
                filled().__dlpack__(dl_device=(CPU, 0), copy=False, max_version=version)
        empty = program.filled([2, 0], 1.0)
        copied = Consumer(empty.__dlpack__(dl_device=(CPU, 0)))
        self.assertEqual((copied.shape(), copied.tensor.data), ([2, 0], None))
        copied.end()

    def test_the_interface_says_what_it_is_and_keeps_the_memory(self):
        before = 0
        x = filled(2.0, delay=20)
        entries = x.__cuda_array_interface__
        address, read_only = entries.pop("data")
        # A simulated device has no default streams: the host has waited.
        self.assertEqual(
            entries,
            {"shape": (2, 3), "typestr": "<f4", "strides": None, "stream": None, "version": 3},
        )
        self.assertFalse(read_only)
        floats = (ctypes.c_float * LEN).from_address(address)
        self.assertEqual(list(floats), [2.0] * LEN)
        self.assertEqual(x.__cuda_array_interface__["data"][0], address)
        del x
        self.assertEqual(settled(before), before)
        self.assertEqual(program.filled([0], 1.0).__cuda_array_interface__["data"], (0, False))
        host = program.counted(3)
        self.assertFalse(hasattr(host, "__cuda_array_interface__"))
        self.assertTrue(hasattr(host, "__dlpack__"))


class Imports(unittest.TestCase):
    """Tensors of others, taken by us."""

    def setUp(self):
        self.memory = filled(3.0)
        self.address = address_of(self.memory)
        program.synchronize()

    def tearDown(self):
        del self.memory

    def test_a_producer_is_told_our_stream_and_ended_once(self):
        for kind in NAMES:
            producer = Producer(self.address, kind)
            y = program.doubled(producer)
            self.assertEqual(producer.asked, [{"stream": COMPUTE, "max_version": (1, 1)}])
            self.assertEqual(name_of(producer.capsules[0]), NAMES[kind][1])
            self.assertEqual(program.values(y), [6.0] * LEN)
            self.assertTrue(eventually(lambda: producer.ended == 1), producer.ended)
            producer = Producer(self.address, kind)
            program.doubled_elsewhere(producer)
            self.assertEqual(producer.asked[0]["stream"], OTHER)
            self.assertTrue(eventually(lambda: producer.ended == 1), producer.ended)

    def test_a_tensor_is_not_ended_before_its_last_use(self):
        producer = Producer(self.address)
        y = program.passed_on(producer, 7.0)
        program.synchronize()
        time.sleep(0.02)
        self.assertEqual(producer.ended, 0)
        consumer = Consumer(y.__dlpack__(stream=OTHER))
        self.assertEqual(consumer.tensor.data, self.address)
        del y
        gc.collect()
        program.synchronize()
        time.sleep(0.02)
        self.assertEqual(producer.ended, 0)
        consumer.end()
        self.assertTrue(eventually(lambda: producer.ended == 1), producer.ended)

    def test_an_old_producer_is_asked_without_a_version(self):
        producer = Producer(self.address, Unversioned, knows_versions=False)
        self.assertEqual(program.values(program.doubled(producer)), [6.0] * LEN)
        self.assertEqual(producer.asked[1:], [{"stream": COMPUTE}])
        self.assertTrue(eventually(lambda: producer.ended == 1), producer.ended)

    def test_another_tensor_is_refused_and_ended_once(self):
        numbers = (ctypes.c_int64 * 2)(1, 2)
        strides = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
        refused = {
            "float32": dict(dtype=DataType(2, 64, 1)),
            "read-only": dict(flags=READ_ONLY),
            "contiguous": dict(strides=strides),
            "no address": dict(data=None),
            "2 bytes": dict(byte_offset=2),
            "GPU 1": dict(device_of_tensor=Device(CUDA, 1)),
            "kDLCPU": dict(device_of_tensor=Device(CPU, 0)),
            "version 2.0": dict(major=2, minor=0),
        }
        for words, changes in refused.items():
            producer = Producer(self.address)
            for field, value in changes.items():
                if field == "device_of_tensor":
                    producer.managed.tensor.device = value
                else:
                    at = producer.managed if field in ("flags", "major", "minor") else None
                    setattr(at or producer.managed.tensor, field, value)
            with self.assertRaisesRegex(BufferError, words):
                program.doubled(producer)
            self.assertEqual(producer.ended, 1, words)

    def test_only_the_deleter_of_another_major_version_is_used(self):
        # Behind the deleter is a page that nobody can read.
        page, start = mmap.PAGESIZE, Versioned.flags.offset
        pages = mmap.mmap(-1, 2 * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.assertEqual(protect(address + page, page, 0), 0)
        for take, device in [(program.doubled, CUDA), (program.sum_of_host, CPU)]:
            producer = Producer(self.address, device=(device, 0), major=2)
            ctypes.memmove(address + page - start, ctypes.addressof(producer.managed), start)
            producer.managed = ctypes.c_char.from_address(address + page - start)
            with self.assertRaisesRegex(BufferError, "version 2"):
                take(producer)
            self.assertEqual(producer.ended, 1)

    def test_a_producer_on_another_device_is_not_told_our_stream(self):
        for device in [(CPU, 0), (CUDA, 1), (CUDA_HOST, 0), (14, 0)]:
            producer = Producer(self.address, device=device)
            with self.assertRaises(BufferError, msg=device):
                program.doubled(producer)
            self.assertEqual((producer.asked, producer.ended), ([], 0))

    def test_memory_that_only_says_that_it_is_the_hosts_is_not_read(self):
        for device in [(CPU, 0), (CUDA_HOST, 0)]:
            producer = Producer(self.address, device=device, dtype=DataType(0, 32, 1))
            producer.managed.tensor.device = Device(CUDA, 0)
            with self.assertRaisesRegex(BufferError, "kDLCUDA"):
                program.sum_of_host(producer)
            self.assertEqual(producer.ended, 1)
            producer.managed.tensor.device = Device(*device)
            self.assertNotEqual(program.sum_of_host(producer), 0)
            self.assertTrue(eventually(lambda: producer.ended == 2), producer.ended)

    def test_what_is_no_tensor_is_refused(self):
        producer = Producer(self.address)
        program.doubled(producer)
        used = producer.capsules[0]
        self.assertTrue(eventually(lambda: producer.ended == 1), producer.ended)
        producer.__dlpack__ = None

        class Returns:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack_device__(self):
                return (CUDA, 0)

            def __dlpack__(self, **_):
                if isinstance(self.capsule, Exception):
                    raise self.capsule
                return self.capsule

        with self.assertRaisesRegex(BufferError, "another consumer"):
            program.doubled(Returns(used))
        self.assertEqual(producer.ended, 1)
        with self.assertRaisesRegex(TypeError, "no capsule"):
            program.doubled(Returns(3))
        for error in [BufferError("theirs"), ValueError("theirs"), KeyboardInterrupt("theirs")]:
            with self.assertRaisesRegex(type(error), "theirs"):
                program.doubled(Returns(error)) if isinstance(error, Exception) else raise_(error)
        with self.assertRaisesRegex(TypeError, "neither"):
            program.doubled(object())

    def test_what_is_no_array_is_refused_by_its_name_and_the_message_says_what_to_pass(self):
        on_gpu = r"^list has neither .*: pass a tensor in memory of GPU 0 .*torch.float32"
        on_host = r'^list has no `__dlpack__`: .*numpy.asarray\(x, dtype="int32"\)'
        for take, words in [(program.doubled, on_gpu), (program.sum_of_host, on_host)]:
            with self.assertRaisesRegex(TypeError, words):
                take([1.0])

    def test_messages_name_nothing_that_the_caller_in_python_never_wrote(self):
        doubles = Producer(self.address, dtype=DataType(2, 64, 1))
        bools = Producer(self.address, dtype=DataType(6, 8, 1))
        floats, on_host = (Producer(self.address, device=(CPU, 0)) for _ in range(2))
        refused = [
            (program.doubled, doubles, "^the elements of the tensor are float64, .*x.astype"),
            (program.doubled, bools, "are bool, and"),
            (program.doubled, on_host, "^the tensor is .*torch.asarray.*pinned_from_object"),
            (program.sum_of_host, floats, '^the elements .*x.astype."int32"'),
            (program.sum_of_host, filled(), "^the tensor is memory of GPU 0 .*[.]cpu"),
        ]
        for take, tensor, words in refused:
            with self.assertRaisesRegex(BufferError, words):
                take(tensor)
        # The author of the module reads the name of the call, and both numbers.
        shapes = [([4, 2], r"\(4, 2\) has 8"), ([7], r"\(7,\) has 7"), ([], r"\(\) has 1")]
        for shape, words in shapes:
            words += " elements, the buffer 6$"
            with self.assertRaisesRegex(BufferError, f"^Tensor::new: the shape {words}"):
                program.reshaped(Producer(self.address), shape)
            with self.assertRaisesRegex(BufferError, f"^Tensor::of_pinned: the shape {words}"):
                program.counted(6, shape)

    def test_pinned_tensors_of_pytorch_are_copied(self):
        # Their objects say that they are page-locked, and their tensors that they are ordinary.
        memory = (ctypes.c_int32 * LEN)(*range(LEN))
        address, dtype = ctypes.addressof(memory), DataType(0, 32, 1)
        producer = Producer(address, device=(CUDA_HOST, 0), dtype=dtype)
        producer.managed.tensor.device = Device(CPU, 0)
        self.assertEqual(program.sum_of_host(producer), 15)
        self.assertEqual(producer.ended, 1)

    def test_an_interface_is_read_and_kept_until_the_last_use(self):
        for stream in [None, COMPUTE]:
            x = Interface(data=(self.address, False), stream=stream)
            gone = weakref.ref(x)
            y = program.doubled_by_interface(x)
            del x
            self.assertEqual(program.values(y), [6.0] * LEN)
            self.assertTrue(eventually(lambda: gone() is None), "the object is let go")
        x = Interface(data=(self.address, False), stream=None)
        gone = weakref.ref(x)
        y = program.passed_on(x, 7.0)
        del x
        program.synchronize()
        time.sleep(0.02)
        self.assertIsNotNone(gone(), "the object is kept")
        del y
        self.assertTrue(eventually(lambda: gone() is None), "the object is let go")
        self.memory = filled(3.0)
        self.address = address_of(self.memory)
        x = Interface(data=(self.address, False), stream=COMPUTE, strides=(12, 4))
        self.assertEqual(program.values(program.doubled(x)), [6.0] * LEN)

    def test_an_interface_with_elements_of_no_bytes_is_refused(self):
        x = filled()
        for typestr in ["<i0", "<f0", "|b0"]:
            of_nothing = Interface(x, data=(address_of(x), False), typestr=typestr, strides=(4, 4))
            with self.assertRaisesRegex(BufferError, typestr[1:]):
                program.doubled_by_interface(of_nothing)

    def test_a_shape_that_no_number_counts_is_refused(self):
        with self.assertRaisesRegex(ValueError, "more elements"):
            program.filled([2**62, 4], 1.0)

    def test_an_interface_of_another_tensor_is_refused(self):
        whole = dict(data=(self.address, False), stream=None)
        refused = [
            (BufferError, "float32", dict(typestr="<f8")),
            (BufferError, "'>f4'", dict(typestr=">f4")),
            (BufferError, "'|V4'", dict(typestr="|V4")),
            (BufferError, "contiguous", dict(strides=(4, 8))),
            (BufferError, "multiples", dict(strides=(12, 3))),
            (BufferError, "dimensions", dict(strides=(4,))),
            (BufferError, "mask", dict(mask=3)),
            (BufferError, "read-only", dict(data=(self.address, True))),
            (BufferError, "no address", dict(data=(0, False))),
            (ValueError, "forbids", dict(stream=0)),
            # The legacy default stream, which a simulated device does not have.
            (RuntimeError, "cuEventRecord", dict(stream=1)),
        ]
        for error, words, changes in refused:
            x = Interface(**{**whole, **changes})
            gone = weakref.ref(x)
            with self.assertRaisesRegex(error, words):
                program.doubled_by_interface(x)
            del x
            self.assertTrue(eventually(lambda: gone() is None), words)
        for missing in ["shape", "typestr", "data"]:
            x = Interface(**whole)
            del x.entries[missing]
            with self.assertRaisesRegex(KeyError, missing):
                program.doubled_by_interface(x)
        # Without the entry it is the legacy default stream.
        x = Interface(data=(self.address, False), version=2)
        with self.assertRaisesRegex(RuntimeError, "cuEventRecord"):
            program.doubled_by_interface(x)


def raise_(error):
    raise error


class Order(unittest.TestCase):
    """The checker follows the simulated device, and sees each wait that is missing.

    A tensor has one consumer at a time: its end counts as a write of the memory.
    """

    def setUp(self):
        self.before = self.races()

    def races(self):
        # The last tensors end on another thread.
        self.assertEqual(settled(0), 0)
        return len(program.races())

    def assert_no_race(self):
        self.assertEqual(self.races(), self.before, "\n".join(program.races()))

    def test_h01_exchanges_are_ordered(self):
        for round in range(10):
            x = program.doubled_elsewhere(filled(round), delay=2)
            self.assertEqual(program.values(x), [2.0 * round] * LEN)
            x = program.doubled(program.doubled_elsewhere(filled(round), delay=2), delay=2)
            x = program.passed_on(x, 1.0 + round)
            self.assertEqual(program.values(x), [1.0 + round] * LEN)
        del x
        self.assert_no_race()

    def test_h01_the_stream_of_an_interface_is_waited_for(self):
        for round in range(10):
            x = filled(round)
            x = Interface(x, data=(address_of(x), False), stream=COMPUTE)
            self.assertEqual(
                program.values(program.doubled_by_interface(x)), [2.0 * round] * LEN
            )
        del x
        self.assert_no_race()

    def test_h13_the_host_waits_where_no_stream_can(self):
        for round in range(10):
            self.assertEqual(program.values(Unordered(filled(round))), [1.0 * round] * LEN)
            copied = Consumer(filled(round).__dlpack__(stream=-1, copy=True))
            self.assertEqual(copied.floats(), [1.0 * round] * LEN)
            copied.end()
        self.assert_no_race()

    def test_h01_a_wait_that_is_left_out_is_seen(self):
        program.values(OnAnotherStream(filled(), COMPUTE))
        self.assertGreater(self.races(), self.before)

    def test_h01_an_interface_that_hides_its_stream_is_seen(self):
        x = filled()
        x = Interface(x, data=(address_of(x), False), stream=None)
        program.doubled_by_interface(x)
        del x
        self.assertGreater(self.races(), self.before)

    def test_h02_memory_is_written_again_behind_its_consumers(self):
        for _ in range(10):
            # Each result takes the memory of the one before, whose consumer may still run.
            program.doubled_elsewhere(filled(), delay=5)
            program.doubled(filled())
        self.assert_no_race()


try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        interpreters = None

IN_A_SUBINTERPRETER = """
import sys
sys.path[:0] = {path!r}
said = []
try:
    import python_exchange

    class Interface:
        __cuda_array_interface__ = dict(
            shape=(6,), typestr="<f4", data=({address}, False), version=3, stream=None
        )

    class Tensor:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            said.append("asked")

    class OfTheHost(Tensor):
        def __dlpack_device__(self):
            return (1, 0)

    program = python_exchange.Program("sim")
    for call in [
        lambda: program.doubled_by_interface(Interface()),
        lambda: program.values(Tensor()),
        lambda: program.sum_of_host(OfTheHost()),
    ]:
        try:
            call()
            said.append("taken")
        except RuntimeError as error:
            said.append(str(error))
except ImportError as error:
    said += [str(error)] * 3
with open({answer!r}, "w") as file:
    file.write("\\n".join(said))
"""


class Subinterpreters(unittest.TestCase):
    """What is taken over ends in the main interpreter."""

    @unittest.skipIf(interpreters is None, "this Python has no module for subinterpreters")
    def test_objects_of_a_subinterpreter_are_not_taken_over(self):
        x = filled()
        with tempfile.TemporaryDirectory() as folder:
            answer = os.path.join(folder, "answer")
            code = IN_A_SUBINTERPRETER.format(path=sys.path, address=address_of(x), answer=answer)
            try:
                other = interpreters.create("legacy")
            except (TypeError, ValueError):
                other = interpreters.create()
            interpreters.run_string(other, code)
            interpreters.destroy(other)
            with open(answer) as file:
                said = file.read().splitlines()
        self.assertEqual(len(said), 3, said)
        for line in said:
            # pyo3 may refuse the whole module.
            self.assertRegex(line, "of a subinterpreter cannot be|does not (yet )?support")


class Waits(unittest.TestCase):
    """A stream that calls Python goes on only while nobody keeps the GIL."""

    def setUp(self):
        # A wait that keeps the GIL never ends. This ends the process, and says where it was.
        faulthandler.dump_traceback_later(60, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def assert_python_runs_during(self, wait):
        calls = []
        wait(program.filled([2, 3], 3.0, after=lambda: calls.append(threading.get_ident())))
        [thread] = calls
        self.assertNotEqual(thread, threading.get_ident())

    def test_a_wait_of_the_host_for_a_consumer_releases_the_gil(self):
        # A simulated device has no default streams.
        for number in [-1, None, 1, 2]:
            self.assert_python_runs_during(lambda x: Consumer(x.__dlpack__(stream=number)).end())
        self.assert_python_runs_during(
            lambda x: Consumer(x.__dlpack__(stream=-1, copy=True)).end()
        )
        self.assert_python_runs_during(
            lambda x: Consumer(x.__dlpack__(dl_device=(CPU, 0))).end()
        )

    def test_a_wait_of_the_host_for_a_reader_of_the_interface_releases_the_gil(self):
        self.assert_python_runs_during(lambda x: x.__cuda_array_interface__)

    def test_waits_of_a_module_release_the_gil(self):
        self.assert_python_runs_during(lambda x: program.synchronize())
        self.assert_python_runs_during(program.values)


@unittest.skipIf(numpy is None, "NumPy is not installed")
class NumPy(unittest.TestCase):
    """NumPy takes memory of the host."""

    def test_numpy_reads_page_locked_memory_without_a_copy(self):
        host = program.counted(LEN)
        x, again = numpy.from_dlpack(host), numpy.from_dlpack(host)
        del host
        gc.collect()
        self.assertEqual(x.dtype, numpy.int32)
        self.assertEqual(x.tolist(), list(range(LEN)))
        x[0] = 9
        self.assertEqual(again[0], 9)
        self.assertEqual(program.sum_of_host(x), 24)

    @unittest.skipIf(numpy is None or numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0", "old")
    def test_numpy_asks_for_copies_and_devices(self):
        host = program.counted(LEN)
        x, copy = numpy.from_dlpack(host, device="cpu"), numpy.from_dlpack(host, copy=True)
        x[0] = 9
        self.assertEqual((copy[0], numpy.from_dlpack(host, copy=False)[0]), (0, 9))
        with self.assertRaises((BufferError, RuntimeError)):
            numpy.from_dlpack(filled())
        for copy in [None, True]:
            x = numpy.from_dlpack(filled(2.5, delay=20), device="cpu", copy=copy)
            self.assertEqual((x.shape, x.tolist()), ((2, 3), [[2.5] * 3] * 2))
        with self.assertRaisesRegex(BufferError, "copy=True"):
            numpy.from_dlpack(filled(), device="cpu", copy=False)

    def test_numpy_makes_arrays_of_page_locked_memory_and_says_how_to_copy_the_gpus(self):
        host = program.counted(LEN)
        x, again = numpy.asarray(host), numpy.asarray(host)
        self.assertEqual((x.dtype, x.tolist()), (numpy.int32, list(range(LEN))))
        x[0] = 9
        self.assertEqual(again[0], 9)
        copy, floats = numpy.array(host, copy=True), numpy.asarray(host, dtype=numpy.float64)
        x[1] = 8
        self.assertEqual((copy[1], floats.dtype, floats[0]), (1, numpy.float64, 9.0))
        del host, again
        gc.collect()
        # The array keeps the memory.
        others = [program.counted(LEN) for _ in range(8)]
        self.assertEqual(x.tolist(), [9, 8] + list(range(2, LEN)))
        del others
        for make in [numpy.asarray, numpy.array, lambda y: y.__array__()]:
            words = r'memory of GPU 0 .*from_dlpack\(x, device="cpu"\)'
            with self.assertRaisesRegex(TypeError, words):
                make(filled())
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
            with self.assertRaises(ValueError):
                numpy.array(program.counted(LEN), dtype=numpy.float64, copy=False)

    def test_an_array_of_numpy_goes_to_the_gpu_and_back(self):
        x = numpy.arange(LEN, dtype=numpy.float32).reshape(2, 3)
        y = numpy.from_dlpack(program.doubled_on_host(x))
        self.assertEqual(y.tolist(), (2 * x).tolist())
        self.assertEqual(x.tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_arrays_of_numpy_are_copied(self):
        x = numpy.arange(LEN, dtype=numpy.int32)
        self.assertEqual(program.sum_of_host(x), 15)
        self.assertEqual(program.sum_of_host(program.counted(LEN)), 15)
        self.assertEqual(program.sum_of_host(numpy.zeros(0, dtype=numpy.int32)), 0)
        # It is only read.
        y = x.copy()
        y.flags.writeable = False
        self.assertEqual(program.sum_of_host(y), 15)
        for offset in [1, 2, 3]:
            packed = numpy.zeros(4 * LEN + 4, dtype=numpy.uint8)[offset : offset + 4 * LEN]
            packed = packed.view(numpy.int32)
            self.assertFalse(packed.flags.aligned)
            packed[:] = x
            self.assertEqual(program.sum_of_host(packed), 15)
        for other in [x.astype(numpy.int64), numpy.arange(12, dtype=numpy.int32)[::2]]:
            with self.assertRaises(BufferError):
                program.sum_of_host(other)
        with self.assertRaises(BufferError):
            program.sum_of_host(filled())
        with self.assertRaises(BufferError):
            program.doubled(x)


if __name__ == "__main__":
    unittest.main(failfast=True)
