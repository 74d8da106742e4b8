"""Kernels for NVIDIA GPUs: each `.cu` file with the module that launches it."""
