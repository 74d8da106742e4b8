"""A double of nvImageCodec that decodes into memory of the host, and of the context of a kernel on a GPU."""

from __future__ import annotations

import io
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pipeplug import Batch, DecodeError, MemoryLimitError
from pipeplug_image.codecs import nvimgcodec
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.options import DecodeOptions
from plugins.image.tests.cuda.emulator import EmulatedContext, arrays_of


class Event:
    """The end of some work; waiting for it is counted."""

    def __init__(self):
        self.synced = 0

    def sync(self):
        self.synced += 1


class Stream:
    """A stream that remembers what it waited for."""

    def __init__(self, number=1):
        self.handle = 1000 + number
        self.waited = []
        self.made = []

    def create_stream(self):
        self.made.append(Stream(len(self.made) + 2))
        return self.made[-1]

    def wait(self, event_or_stream):
        self.waited.append(event_or_stream)


class CodeStream:
    def __init__(self, data):
        self.data = bytes(data)
        self.region = None
        try:
            with Image.open(io.BytesIO(self.data)) as image:
                self.width, self.height = image.size
                self.num_channels = len(image.getbands())
        except Exception as error:
            raise RuntimeError(f"Failed to get image info: {error}") from error

    def get_sub_code_stream(self, index, region):
        assert index == 0
        part = CodeStream(self.data)
        part.region = region
        return part


class FakeImage:
    """Memory of one picture, which is made larger where it must."""

    def __init__(self):
        self.memory = np.empty(0, np.uint8)
        self.shape = (0, 0, 0)
        self.strides = None

    @property
    def capacity(self):
        return self.memory.nbytes

    def take(self, pixels):
        self.shape = pixels.shape
        if pixels.nbytes > self.capacity:
            self.memory = np.empty(pixels.nbytes, np.uint8)
        self.memory[: pixels.nbytes] = pixels.ravel()

    @property
    def __cuda_array_interface__(self):
        address = self.memory.__array_interface__["data"][0]
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "stream": 1,
        }


class FakeLibrary:
    """The module `nvidia.nvimgcodec`.

    Attributes:
        refused: for each decoder, files that it does not take.
        calls: the decoder and the number of pictures of each call.
        images: all that were made, and are not gone.
        level: is added to the pixels of a decoder, to tell who decoded.
    """

    BackendKind = SimpleNamespace(HW_GPU_ONLY="engine", GPU_ONLY="kernels", HYBRID_CPU_GPU="hybrid")
    ColorSpec = SimpleNamespace(SRGB="RGB", GRAY="gray")

    def __init__(self):
        self.refused: dict[str, set[bytes]] = {"engine": set(), "kernels": set()}
        self.calls = []
        self.decoders = []
        self.images: weakref.WeakSet[FakeImage] = weakref.WeakSet()
        self.level = {"engine": 0, "kernels": 0}
        self.has_engine = True

    def Backend(self, kind):  # noqa: N802 - the library's names
        return kind

    def DecodeParams(self, *, apply_exif_orientation, color_spec):  # noqa: N802
        return SimpleNamespace(orient=apply_exif_orientation, mode=color_spec)

    def Region(self, *box):  # noqa: N802
        return box

    def CodeStream(self, data):  # noqa: N802
        return CodeStream(data)

    def Decoder(self, *, device_id, backends):  # noqa: N802
        self.decoders.append(FakeDecoder(self, device_id, backends[0]))
        return self.decoders[-1]


class FakeDecoder:
    def __init__(self, library, ordinal, kind):
        self.library, self.ordinal, self.kind, self.closed = library, ordinal, kind, False

    def __exit__(self, *_):
        self.closed = True

    def decode(self, streams, *, images=None, params, cuda_stream):
        assert isinstance(streams, list)
        assert not self.closed
        assert images is None or len(images) == len(streams)
        assert cuda_stream >= 1000
        self.library.calls.append((self.kind, len(streams)))
        given = images or [None] * len(streams)
        return [self._decoded(stream, image, params) for stream, image in zip(streams, given, strict=True)]

    def _decoded(self, stream, image, params):
        pixels = self._pixels(stream, params)
        if pixels is None:
            return None
        if image is None:
            image = FakeImage()
            self.library.images.add(image)
        image.take(pixels)
        return image

    def _pixels(self, stream, params):
        if self.kind == "engine" and (b"\xff\xc2" in stream.data or not self.library.has_engine):
            return None
        if stream.data in self.library.refused[self.kind]:
            return None
        try:
            with Decoder() as decoder:
                pixels = decoder.decode(stream.data, DecodeOptions(mode=params.mode, orient=params.orient))
        except DecodeError:
            pixels = np.full((stream.height, stream.width, 3 if params.mode == "RGB" else 1), 77, np.uint8)  # garbage
        if stream.region is not None:
            top, left, bottom, right = stream.region
            pixels = pixels[top:bottom, left:right]
        return np.minimum(pixels, 250) + np.uint8(self.library.level[self.kind])


class Context(EmulatedContext):
    """What a kernel may use, with memory of a library besides."""

    def __init__(self, memory_limit=None):
        super().__init__()
        self.stream = Stream()
        self.reserved: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self.events = []
        self.memory_limit = memory_limit

    def new_stream(self):
        return self.stream.create_stream()

    def reserve(self, owner, nbytes):
        others = sum(size for each, size in self.reserved.items() if each is not owner)
        if self.memory_limit is not None and others + nbytes > self.memory_limit:
            raise MemoryLimitError(f"{nbytes} bytes do not fit")
        self.reserved[owner] = nbytes

    def adopt(self, addresses, shapes, dtype, layout=None, *, nbytes, owner, give_back):
        assert nbytes <= self.reserved[owner]
        lease = SimpleLease(owner)
        self.events.append(Event())
        weakref.finalize(lease, give_back, self.events[-1])
        return Batch.on_device(addresses, shapes, dtype, layout, owner=lease, device=self.device)


class SimpleLease:
    """Goes when nobody refers to a batch any more."""

    def __init__(self, owner):
        self.owner = owner


@pytest.fixture
def library(monkeypatch):
    """nvImageCodec's double, which is loaded in its place."""
    double = FakeLibrary()
    monkeypatch.setattr(nvimgcodec, "_load", lambda: double)
    return double


@pytest.fixture
def context():
    return Context()


@pytest.fixture
def new_context():
    return Context


@pytest.fixture
def pixels():
    return arrays_of


@pytest.fixture(scope="session")
def jpeg():
    """Makes a JPEG of noise: `jpeg(height, width, seed, mode="RGB", **options)`."""

    def make(height=24, width=32, seed=0, mode="RGB", **options):
        noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(noise).convert(mode).save(file, options.pop("format", "JPEG"), **options)
        return file.getvalue()

    return make
