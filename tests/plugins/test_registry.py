import sys
from pathlib import Path

import pytest

from pipeplug.errors import OperatorConflictError, PluginError, UnknownOperatorError
from pipeplug.plugins.distributions import find_entries, installed_distributions
from pipeplug.plugins.registry import OPERATORS, OperatorRegistry, default_registry, is_operator_name


@pytest.fixture
def acme(site):
    site.write("acme_blur", "class Blur: pass\nblur = 3\n")
    site.add("acme", "2.5", operators={"image.blur": "acme_blur:Blur", "acme.sharpen": "acme_sharpen:Sharpen"})
    return site


def test_it_lists_names_in_order_and_imports_nothing(acme):
    registry = acme.registry()
    assert registry.names() == ("acme.sharpen", "image.blur")
    assert registry.namespaces() == ("acme", "image")
    assert registry.entry("image.blur").target == "acme_blur:Blur"
    assert str(registry.entry("image.blur").distribution) == "acme 2.5"
    assert "acme_blur" not in sys.modules


def test_it_knows_the_name_of_a_class(acme):
    acme.add("rival", operators={"acme.sharpen": "acme_sharpen:Sharpen"})
    registry = acme.registry()
    assert registry.name_of("acme_blur:Blur") == "image.blur"
    assert registry.name_of("acme_blur:Other") is None
    assert registry.name_of("acme_sharpen:Sharpen") is None  # a name that two offer is nobody's


def test_it_loads_a_class_once(acme):
    registry = acme.registry()
    loaded = registry.load("image.blur")
    assert loaded.__name__ == "Blur"
    del sys.modules["acme_blur"]
    assert registry.load("image.blur") is loaded


def test_the_default_registry_is_built_once_from_what_is_installed(acme):
    default_registry.cache_clear()
    try:
        assert "image.blur" in default_registry().names()
        assert default_registry() is default_registry()
    finally:
        default_registry.cache_clear()


class TestUnknownNames:
    def test_similar_ones_are_told(self, acme):
        with pytest.raises(UnknownOperatorError) as caught:
            acme.registry().load("acme.sharpn")
        assert str(caught.value) == "there is no operator 'acme.sharpn'; did you mean acme.sharpen?"

    def test_so_is_one_of_another_namespace(self, acme):
        with pytest.raises(UnknownOperatorError, match=r"did you mean image\.blur\?"):
            acme.registry().entry("filters_of_somebody_else.blur")

    def test_so_is_one_that_says_more(self, site):
        site.add("acme", operators={"acme.gaussian_blur": "a:B", "acme.color_jitter": "a:C"})
        with pytest.raises(UnknownOperatorError, match=r"did you mean acme\.gaussian_blur\?"):
            site.registry().entry("acme.blur")

    def test_else_the_list_is_named(self, acme):
        with pytest.raises(UnknownOperatorError, match="`pipeplug ops` lists those that are installed"):
            acme.registry().load("zzz.zzz")

    def test_a_first_party_plugin_that_is_missing_is_named(self, acme, monkeypatch: pytest.MonkeyPatch):
        registry = acme.registry()
        monkeypatch.setattr("sys.path", [str(acme.folder)])
        with pytest.raises(UnknownOperatorError) as caught:
            registry.load("image.resize")
        expected = "there is no operator 'image.resize'; image operators come with `pip install pipeplug-image`"
        assert str(caught.value) == expected

    def test_one_that_is_installed_is_not(self, site):
        site.add("pipeplug-image", operators={"image.resize": "a:B"})
        with pytest.raises(UnknownOperatorError, match=r"'image\.resise'; did you mean image\.resize\?"):
            site.registry().load("image.resise")

    def test_one_that_is_installed_without_operators_is_told_apart(self, site):
        site.add("pipeplug-audio", "0.1")
        with pytest.raises(UnknownOperatorError, match=r"pipeplug-audio 0\.1 is installed and does not offer it"):
            site.registry().load("audio.mel")

    def test_it_is_an_attribute_error(self, site):
        with pytest.raises(AttributeError):
            site.registry().load("x.y")


class TestConflicts:
    def test_using_the_name_names_both(self, acme):
        acme.add("zeta", "0.2", operators={"image.blur": "zeta:Blur"})
        registry = acme.registry()
        assert registry.names() == ("acme.sharpen", "image.blur")
        with pytest.raises(OperatorConflictError) as caught:
            registry.load("image.blur")
        message = "image.blur is offered by acme 2.5 and zeta 0.2; uninstall all but one of them"
        assert str(caught.value).replace("zeta 0.2 and acme 2.5", "acme 2.5 and zeta 0.2") == message
        assert "acme_blur" not in sys.modules

    def test_one_distribution_found_twice_is_none(self, acme, tmp_path: Path):
        other = type(acme)(tmp_path / "other")
        other.add("ACME", "2.4", operators={"image.blur": "acme_old:Blur"})
        both = [*acme.distributions(), *installed_distributions([str(other.folder)])]
        registry = OperatorRegistry(find_entries(OPERATORS, both))
        assert registry.entry("image.blur").rivals == ()
        assert registry.load("image.blur").__module__ == "acme_blur"


class TestPluginsThatCannotBeUsed:
    def load(self, site, target: str, source: str = "", name: str = "acme.blur", **fields) -> str:
        site.write("acme_blur", source)
        site.add("acme", "2.5", operators={name: target}, **fields)
        with pytest.raises(PluginError) as caught:
            site.registry().load(name)
        return str(caught.value)

    def test_a_library_is_missing(self, site):
        assert self.load(site, "acme_blur:Blur", "import no_such_library") == (
            "acme.blur of acme 2.5 cannot be imported from acme_blur:Blur "
            "(ModuleNotFoundError: No module named 'no_such_library'); "
            "install what is missing, or all of it anew: `pip install --force-reinstall acme`"
        )

    def test_its_module_raises(self, site):
        message = self.load(site, "acme_blur:Blur", "raise RuntimeError('no licence')")
        assert "(RuntimeError: no licence); try another version: `pip install --upgrade acme`" in message

    def test_its_declaration_is_wrong(self, site):
        lines = "from pipeplug import Operator\nclass Blur(Operator):\n    def cpu(self, image, context): ..."
        message = self.load(site, "acme_blur:Blur", lines)
        assert "parameter image of Blur.cpu has no annotation" in message
        assert message.endswith("correct the declaration there, or tell its author")

    def test_its_module_ends_the_process(self, site):
        assert "(SystemExit: 3)" in self.load(site, "acme_blur:Blur", "raise SystemExit(3)")

    def test_its_class_is_gone(self, site):
        message = self.load(site, "acme_blur:Blur")
        assert "module 'acme_blur' has no attribute 'Blur'" in message
        assert "pip install --force-reinstall acme" in message

    def test_its_entry_point_is_no_place(self, site):
        assert "invalid format" in self.load(site, "acme blur/Blur")

    @pytest.mark.parametrize("target", ["acme_blur:Blur", "acme_blur"])
    def test_it_offers_no_class(self, site, target: str):
        message = self.load(site, target, "Blur = 3")
        assert message.startswith("acme.blur of acme 2.5 is ")
        assert message.endswith(f"not an operator class; its author has to correct the entry point {target}")

    def test_it_wants_another_core(self, site):
        message = self.load(site, "acme_blur:Blur", "class Blur: pass", requires=["pipeplug>=7"])
        assert message.startswith("acme.blur cannot be used: acme 2.5 needs pipeplug>=7, but pipeplug 0.1.0 is")
        assert "acme_blur" not in sys.modules

    @pytest.mark.parametrize("name", ["blur", "Acme.blur", "acme.blur.fast", "acme.import"])
    def test_its_name_is_no_name_of_an_operator(self, site, name: str):
        message = self.load(site, "acme_blur:Blur", "class Blur: pass", name=name)
        assert message.startswith(f"acme 2.5 offers an operator named {name!r}, but names are namespace.operator")

    def test_the_failure_is_an_import_error_with_its_cause(self, site):
        site.write("acme_blur", "1 / 0")
        site.add("acme", operators={"acme.blur": "acme_blur:Blur"})
        with pytest.raises(ImportError) as caught:
            site.registry().load("acme.blur")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_what_is_mended_can_be_loaded(self, site):
        site.write("acme_blur", "raise RuntimeError")
        site.add("acme", operators={"acme.blur": "acme_blur:Blur"})
        registry = site.registry()
        with pytest.raises(PluginError):
            registry.load("acme.blur")
        site.write("acme_blur", "class Blur:\n    'longer than what stood here before'\n")
        assert registry.load("acme.blur").__name__ == "Blur"


def test_names_of_operators():
    good = ("image.resize", "read.files2", "a.b_c")
    bad = ("", ".", "image.", ".resize", "image.Resize", "image.2d", "image resize", "class.map", "image._x", "a.b\n")
    assert [name for name in good + bad if is_operator_name(name)] == list(good)


def test_names_that_cannot_be_used_are_listed_but_have_no_namespace(site):
    site.add("acme", operators={"Blur": "a:B"})
    assert site.registry().names() == ("Blur",)
    assert site.registry().namespaces() == ()
