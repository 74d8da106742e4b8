"""The machine that a figure comes from."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "pipeplug", "pipeplug-image", "numpy", "opencv-python-headless", "opencv-python", "pillow", "pylibjxl",
    "nvidia-dali-cuda130", "nvidia-dali-cuda120", "torch", "torchvision",
)  # fmt: skip
"""Distributions whose versions explain a figure."""


def describe_machine() -> Mapping[str, object]:
    """Processor, cores, memory, system, how busy it was, and the versions of what is installed."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "packages": _versions(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    fields = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
    name = fields.get("model name", platform.processor() or platform.machine())
    # Virtual machines give a family and a model where the name is a family's.
    model = f" (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else ""
    return name + model


def _memory_gib() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def _versions() -> Mapping[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
