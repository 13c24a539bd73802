"""Objects that leave a wait out, as programs do by mistake. Nothing else needs them."""


class Unordered:
    """A tensor whose producer is told no stream: nobody waits for the producer's work."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **rest):
        return self.tensor.__dlpack__(stream=-1, **rest)


class OnAnotherStream:
    """A tensor whose consumer works on another stream than it names: the named stream waits, and
    the consumer does not."""

    def __init__(self, tensor, named):
        self.tensor, self.named = tensor, named

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **rest):
        return self.tensor.__dlpack__(stream=self.named, **rest)


class NothingPending:
    """A `__cuda_array_interface__` that says that no work is pending."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return {**self.tensor.__cuda_array_interface__, "stream": None}
