from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from pipeplug_image import plugin


def test_the_doctor_sees_the_libraries_that_are_there():
    checks = {check.name: check for check in plugin.pipeplug_doctor()}
    assert list(checks) == ["opencv-python-headless", "pillow", "TurboJPEG 3", "compiled kernels", "nvImageCodec"]
    assert all(check.ok and not check.advice for check in checks.values())
    assert checks["pillow"].detail[0].isdigit()


def test_the_doctor_says_what_is_missing_and_how_to_get_it(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(plugin, "version", missing)
    monkeypatch.setattr("pipeplug_image.codecs.tj3.find_library", lambda: None)
    monkeypatch.setattr("pipeplug_image.native.find_library", lambda: None)
    monkeypatch.setattr("pipeplug_image.codecs.nvimgcodec.find_version", lambda: None)
    opencv, pillow, turbo, kernels, nvimgcodec = plugin.pipeplug_doctor()
    assert (opencv.ok, opencv.advice) == (False, "pip install opencv-python-headless")
    assert (pillow.ok, pillow.detail) == (False, "not installed")
    assert turbo.ok  # nothing needs it
    assert 'pip install "pipeplug-image[turbo]"' in turbo.detail
    assert kernels.ok
    assert "install a C compiler, then the plugin again" in kernels.detail
    assert nvimgcodec.ok
    assert 'pip install "pipeplug-image[cuda13]"' in nvimgcodec.detail


@pytest.mark.parametrize("name", ["pipeplug_doctor", "pipeplug_rewrite"])
def test_hooks_are_marked_as_such(name):
    assert hasattr(getattr(plugin, name), "pipeplug_impl")
