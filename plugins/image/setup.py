"""Compiles the plugin's kernels where there is a compiler; without one it installs all the same."""

from glob import glob

from setuptools import Extension, setup

NATIVE = "src/pipeplug_image/native"

setup(
    ext_modules=[
        Extension(
            "pipeplug_image.native.kernels",
            sorted(glob(f"{NATIVE}/*.c")),
            depends=sorted(glob(f"{NATIVE}/*.h")),
            # Floats are compared and rounded in loops, which vector instructions do when nobody asks for traps.
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"],
            py_limited_api=True,  # it does not use Python at all
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
