"""What `import pipeplug` promises: public names, loaded on first use."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pipeplug

HEAVY = ("numpy", "rich", "pluggy", "packaging", "argparse", "inspect", "dataclasses", "importlib.metadata")


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has imported after `code`."""
    show = "import sys; print(*sys.modules, sep='\\n')"
    # -S and -I: what `site` and `.pth` files of the environment import is none of the package's doing.
    paths = [path for path in sys.path if path]
    prelude = f"import sys; sys.path[:] = {paths!r}"
    command = [sys.executable, "-I", "-S", "-c", f"{prelude}\n{code}\n{show}"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def test_importing_it_imports_next_to_nothing():
    imported = modules_after("import pipeplug")
    assert not imported & set(HEAVY)
    assert {name for name in imported if name.startswith("pipeplug")} == {"pipeplug"}


def test_declaring_an_operator_needs_no_numpy():
    declare = "from pipeplug import Context, Operator, PerSample, TensorSpec, ArgumentError, hookimpl"
    imported = modules_after(declare)
    assert "numpy" not in imported
    assert "rich" not in imported


def test_operators_import_no_plugin_before_they_are_used():
    imported = modules_after("from pipeplug import ops; dir(ops); dir(ops.image)")
    assert not {name for name in imported if name.startswith("pipeplug_")}
    assert "rich" not in imported


def test_all_names_have_a_home():
    assert sorted(pipeplug.__all__) == sorted(name for names in pipeplug._HOMES.values() for name in names)
    assert len(set(pipeplug.__all__)) == len(pipeplug.__all__)


def test_type_checkers_are_told_the_same():
    tree = ast.parse(Path(pipeplug.__file__).read_text(encoding="utf-8"))
    (told,) = (each for each in tree.body if isinstance(each, ast.If))
    homes = {
        each.module: tuple(name.name for name in each.names) for each in told.body if isinstance(each, ast.ImportFrom)
    }
    assert homes == pipeplug._HOMES


@pytest.mark.parametrize("name", pipeplug.__all__)
def test_every_name_can_be_imported(name: str):
    (home,) = (module for module, names in pipeplug._HOMES.items() if name in names)
    assert getattr(pipeplug, name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize("first", ["import pipeplug.ops, pipeplug.pipeline", "import pipeplug.cli.ops", "pass"])
def test_modules_do_not_hide_the_names_that_they_share(first: str):
    code = f"{first}\nfrom pipeplug import ops, pipeline\nassert callable(pipeline) and hasattr(ops, 'map')"
    assert "pipeplug.ops" in modules_after(code)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="module 'pipeplug' has no attribute 'Operater'"):
        _ = pipeplug.Operater


def test_names_are_listed():
    assert dir(pipeplug) == sorted([*pipeplug.__all__, "__version__"])


def test_every_public_name_says_what_it_is():
    documented = [name for name in pipeplug.__all__ if name not in ("Array", "PerSample", "Shapes", "ops", "hookimpl")]
    assert [name for name in documented if not (getattr(pipeplug, name).__doc__ or "").strip()] == []
