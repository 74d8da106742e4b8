"""Every operator of pipeplug's own distributions says what it takes, gives and does, for `pipeplug ops NAME`."""

from __future__ import annotations

import re

import pytest

from pipeplug.cli import main
from pipeplug.description import describe
from pipeplug.plugins.registry import default_registry

NAMES = [name for name in default_registry().names() if name.partition(".")[0] in ("image", "random", "read")]
SECTION = re.compile(r"^(Inputs|Outputs|Args|Raises):", re.MULTILINE)


def sections(doc: str) -> dict[str, str]:
    """The parts of a docstring by their heading; the introduction has none."""
    parts = SECTION.split(doc)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.fixture(params=NAMES)
def description(request):
    return describe(default_registry().load(request.param))


def test_there_is_something_to_read():
    assert len([name for name in NAMES if name.startswith("image.")]) >= 22


def test_the_summary_is_one_short_sentence(description):
    assert re.fullmatch(r"[A-Z`].*[^.]\.", description.summary)
    assert len(description.summary) <= 100
    assert description.doc.splitlines()[1:2] in ([], [""])


def test_inputs_and_outputs_are_described(description):
    parts = sections(description.doc)
    assert parts["Outputs"].strip()
    assert ("Inputs" in parts) == bool(description.inputs)
    assert all(parts[name].strip() for name in ("Inputs",) if name in parts)


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_described(name):
    description = describe(default_registry().load(name))
    inherited = {"shuffle", "shard", "sampler"}  # of all sources, described once by `Source`
    described = re.findall(r"^ {4}(\w+): \S", sections(description.doc).get("Args", ""), re.MULTILINE)
    assert [each for each in described if each not in inherited] == [
        each.name for each in description.arguments if each.name not in inherited
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("image.")])
def test_the_command_shows_all_of_it(name, capsys):
    assert main(["ops", name]) == 0
    shown = capsys.readouterr().out
    found = describe(default_registry().load(name))
    assert shown.startswith(f"{name}({', '.join(found.inputs)}")
    for part in (found.summary, "Inputs:", "Outputs:", "devices  cpu", "plugin   pipeplug-image", found.source):
        assert part in shown
    for argument in found.arguments:
        assert re.search(rf"^  {argument.name} +\S", shown, re.MULTILINE)
