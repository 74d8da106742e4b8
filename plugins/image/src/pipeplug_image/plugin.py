"""The hooks that the image plugin answers."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pipeplug import Check, DeviceError, Graph, hookimpl


@hookimpl
def pipeplug_rewrite(graph: Graph) -> Graph:
    """Fuses decoding with cropping, and resizing and mirroring with normalising."""
    from pipeplug_image.rewrite import rewrite

    return rewrite(graph)


@hookimpl
def pipeplug_doctor() -> list[Check]:
    """The libraries that decode and compute."""
    return [_installed("opencv-python-headless"), _installed("pillow"), _turbojpeg(), _compiled(), _nvimgcodec()]


def _installed(distribution: str) -> Check:
    try:
        return Check(distribution, True, version(distribution))
    except PackageNotFoundError:
        return Check(distribution, False, "not installed", f"pip install {distribution}")


def _turbojpeg() -> Check:
    from pipeplug_image.codecs.tj3 import find_library

    library = find_library()
    if library is None:
        return Check(
            "TurboJPEG 3", True, 'not found, JPEG regions are decoded whole; pip install "pipeplug-image[turbo]"'
        )
    return Check("TurboJPEG 3", True, str(library))


def _compiled() -> Check:
    from pipeplug_image.native import find_library

    library = find_library()
    if library is None:
        advice = (
            "not there: OpenCV and Pillow do their work in more steps, with results that differ by up to one level; "
            "install a C compiler, then the plugin again"
        )
        return Check("compiled kernels", True, advice)
    return Check("compiled kernels", True, library)


def _nvimgcodec() -> Check:
    from pipeplug_image.codecs.nvimgcodec import find_version, load

    found = find_version()
    if found is None:
        detail = 'not installed, GPUs decode nothing; pip install "pipeplug-image[cuda13]" (or [cuda12])'
        return Check("nvImageCodec", True, detail)
    try:
        load()
    except DeviceError as error:
        return Check("nvImageCodec", True, f"{found}, which cannot be used: {error}")
    return Check("nvImageCodec", True, found)
