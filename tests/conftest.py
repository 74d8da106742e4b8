"""Fixtures of the core's tests."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from pipeplug.plugins.distributions import find_entries, installed_distributions
from pipeplug.plugins.registry import OPERATORS, OperatorRegistry

NONE: Mapping[str, str] = {}


class Site:
    """A folder on `sys.path` into which distributions are written as pip would leave them; nothing is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        name: str,
        version: str = "1.0",
        *,
        requires: Iterable[str] = (),
        operators: Mapping[str, str] = NONE,
        hooks: Mapping[str, str] = NONE,
        editable: Path | None = None,
    ) -> Path:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        points = ["[pipeplug.operators]", *(f"{key} = {value}" for key, value in operators.items())]
        points += ["[pipeplug.plugins]", *(f"{key} = {value}" for key, value in hooks.items())]
        (info / "entry_points.txt").write_text("\n".join(points) + "\n", encoding="utf-8")
        if editable is not None:
            record = {"url": editable.as_uri(), "dir_info": {"editable": True}}
            (info / "direct_url.json").write_text(json.dumps(record), encoding="utf-8")
        return info

    def write(self, module: str, source: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{module}.py").write_text(source, encoding="utf-8")

    def distributions(self) -> tuple[metadata.Distribution, ...]:
        return installed_distributions([str(self.folder)])

    def registry(self) -> OperatorRegistry:
        return OperatorRegistry(find_entries(OPERATORS, self.distributions()))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site where pipeplug 0.1.0 is installed, first on `sys.path`; what is imported from it is forgotten."""
    made = Site(tmp_path / "site")
    made.add("pipeplug", "0.1.0")
    monkeypatch.syspath_prepend(made.folder)
    yield made
    for name, module in list(sys.modules.items()):
        if str(made.folder) in str(getattr(module, "__file__", "")):
            del sys.modules[name]
