"""Loading the library: what is said when it is missing, and what is not said when it is there."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from pipeplug import DeviceError
from pipeplug_image import plugin
from pipeplug_image.codecs import nvimgcodec
from pipeplug_image.decode import Decode
from pipeplug_image.fused_cuda import DecodePrepared

ADVICE = r'pip install "pipeplug-image\[cuda13\]" \(or \[cuda12\]\)'


@pytest.fixture(autouse=True)
def _anew():
    nvimgcodec._load.cache_clear()
    yield
    nvimgcodec._load.cache_clear()


def test_what_to_install_is_said_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvidia", None)
    with pytest.raises(DeviceError, match=f"image.decode on a GPU needs nvImageCodec.*: {ADVICE}"):
        nvimgcodec.load()


def test_nvjpeg_must_be_there_too(monkeypatch):
    module = SimpleNamespace(__cuda_version__=99010)
    monkeypatch.setitem(sys.modules, "nvidia", SimpleNamespace(nvimgcodec=module))
    if sys.platform == "linux":
        with pytest.raises(DeviceError, match=f"needs nvJPEG, which nvImageCodec has not found: {ADVICE}"):
            nvimgcodec.load()
    monkeypatch.setattr(nvimgcodec, "_has_nvjpeg", lambda major: major == 99)
    assert nvimgcodec.load() is module


def test_a_decode_on_a_gpu_says_so_when_the_pipeline_opens(monkeypatch):
    def missing():
        raise DeviceError("needs nvImageCodec")

    monkeypatch.setattr(nvimgcodec, "_load", missing)
    decode = Decode()
    with pytest.raises(DeviceError, match="needs nvImageCodec"):
        DecodePrepared(decode=decode, spec=decode.image_spec()).open()
    with decode.open() as state, pytest.raises(DeviceError, match="needs nvImageCodec"):
        state.on("cuda:0")


def test_notes_on_what_is_not_needed_are_kept_back_and_others_passed_on(capfd):
    with nvimgcodec._quiet():
        assert os.environ["PYNVIMGCODEC_VERBOSITY"] == "0"
        os.write(2, b"Failed to load nvjpeg library! Please install CUDA toolkit\n")
        os.write(2, b"Failed to load nvjpeg2k library! Please install nvJPEG2000\n")
        os.write(2, b"Note: If using nvImageCodec's Python distribution, it is enough to install the wheel\n")
        os.write(2, b"something else\n")
    assert "PYNVIMGCODEC_VERBOSITY" not in os.environ
    if sys.platform == "linux":
        assert capfd.readouterr().err == "something else\n"


def test_a_verbosity_that_was_asked_for_stays(monkeypatch):
    monkeypatch.setenv("PYNVIMGCODEC_VERBOSITY", "5")
    with nvimgcodec._quiet():
        assert os.environ["PYNVIMGCODEC_VERBOSITY"] == "5"
    assert os.environ["PYNVIMGCODEC_VERBOSITY"] == "5"


def test_loading_without_a_standard_error_works(monkeypatch):
    def closed(descriptor):
        raise OSError

    monkeypatch.setattr(os, "dup", closed)
    with nvimgcodec._quiet():
        pass


def test_the_doctor_tells_what_there_is(monkeypatch):
    def check():
        return plugin.pipeplug_doctor()[-1]

    monkeypatch.setattr(nvimgcodec, "find_version", lambda: None)
    assert check().ok  # nothing needs it
    assert check().detail == 'not installed, GPUs decode nothing; pip install "pipeplug-image[cuda13]" (or [cuda12])'
    monkeypatch.setattr(nvimgcodec, "find_version", lambda: "0.9.0")
    monkeypatch.setattr(nvimgcodec, "_load", lambda: None)
    assert (check().name, check().ok, check().detail) == ("nvImageCodec", True, "0.9.0")

    def missing():
        raise DeviceError("needs nvJPEG")

    monkeypatch.setattr(nvimgcodec, "_load", missing)
    assert check().detail == "0.9.0, which cannot be used: needs nvJPEG"
