from __future__ import annotations

import shutil

from pipeplug_image.native import find_library, library


def test_the_kernels_are_compiled_where_there_is_a_compiler():
    assert find_library() is not None or shutil.which("cc") is None
    assert (library() is None) == (find_library() is None)


def test_the_library_has_the_kernels():
    compiled = library()
    if compiled is not None:
        assert hasattr(compiled, "pipeplug_resample")
        assert hasattr(compiled, "pipeplug_decode_part")
        assert hasattr(compiled, "pipeplug_read_headers")
