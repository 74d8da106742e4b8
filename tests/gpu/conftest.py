"""Tests that need an NVIDIA GPU: `pytest -m gpu`."""

from pathlib import Path

import pytest

from pipeplug.memory.cuda import device_count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def card() -> None:
    try:
        count = device_count()
    except Exception as error:
        pytest.skip(f"no NVIDIA driver: {error}")
    if not count:
        pytest.skip("no NVIDIA GPU")
