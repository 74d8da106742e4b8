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
            # Loops that compare and round floats become vector instructions when nobody asks for traps. Products and
            # sums are rounded one by one, so that results have the same bits on every processor.
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"],
            py_limited_api=True,  # it does not use Python at all
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
