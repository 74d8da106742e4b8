import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import ModuleType

import pytest

from pipeplug.errors import PluginError
from pipeplug.plugins.distributions import find_entries
from pipeplug.plugins.hookspecs import Check, hookimpl
from pipeplug.plugins.manager import HOOKS, PluginManager

DOCTOR = """
from pipeplug.plugins.hookspecs import Check, hookimpl
@hookimpl
def pipeplug_doctor():
    return [Check(__name__, True, "is well")]
"""


@dataclass(frozen=True)
class Graph:
    """Stands for the graph, which no plugin's loader needs to know."""

    nodes: tuple[str, ...] = ()


def module(*hooks) -> ModuleType:
    made = ModuleType("hooks")
    for hook in hooks:
        setattr(made, hook.__name__, hookimpl(hook))
    return made


def pipeplug_serve() -> None:
    """A hook that there is not."""


def rewriter(rewrite) -> ModuleType:
    def pipeplug_rewrite(graph: Graph) -> object:
        return rewrite(graph)

    return module(pipeplug_rewrite)


def doctor(look) -> ModuleType:
    def pipeplug_doctor() -> object:
        return look()

    return module(pipeplug_doctor)


def append(node: str) -> ModuleType:
    return rewriter(lambda graph: replace(graph, nodes=(*graph.nodes, node)))


def divide() -> float:
    return 1 / 0


@pytest.fixture
def plugins() -> PluginManager:
    return PluginManager(())


class TestLoading:
    @pytest.fixture
    def three(self, site):
        for name, source in {"one": DOCTOR, "two": "import no_such_library", "three": DOCTOR}.items():
            site.write(f"hooks_{name}", source)
            site.add(f"Acme-{name}", "2.5", hooks={name: f"hooks_{name}"})
        return PluginManager(find_entries(HOOKS, site.distributions()))

    def test_a_failure_is_kept_and_stops_no_other(self, three: PluginManager):
        three.load_all()
        [failure] = three.failures
        assert (failure.name, failure.distribution) == ("two", "acme-two 2.5")
        assert failure.error == (
            "two of acme-two 2.5 cannot be imported from hooks_two "
            "(ModuleNotFoundError: No module named 'no_such_library'); "
            "install what is missing, or all of it anew: `pip install --force-reinstall acme-two`"
        )
        assert sorted(check.name for check in three.check()) == ["hooks_one", "hooks_three"]

    def test_only_the_distributions_asked_for_are_imported(self, three: PluginManager):
        three.load_for({"acme_three", "not-installed"})
        assert {name for name in sys.modules if name.startswith("hooks_")} == {"hooks_three"}
        assert [check.name for check in three.check()] == ["hooks_three"]
        assert three.failures == ()

    def test_nothing_is_loaded_twice(self, three: PluginManager):
        three.load_for({"acme-one", "acme-two"})
        three.load_all()
        three.load_all()
        assert len(three.failures) == 1
        assert len(three.check()) == 2

    def test_failures_are_given_to_whoever_needs_the_plugin(self, three: PluginManager):
        assert three.load_for({"acme-one"}) == ()
        assert [failure.name for failure in three.load_for({"acme-one", "Acme.Two"})] == ["two"]
        assert three.load_for({"acme-two"}) == three.failures
        assert three.load_for({"acme-three"}) == ()

    def test_a_plugin_that_plans_while_it_is_imported_is_no_deadlock(self, site):
        site.write("hooks_one", "import sys\nsys.modules['asked'].plugins.load_all()\n" + DOCTOR)
        site.write("hooks_two", DOCTOR)
        site.add("acme", hooks={"one": "hooks_one", "two": "hooks_two"})
        plugins = PluginManager(find_entries(HOOKS, site.distributions()))
        asked = ModuleType("asked")
        asked.__dict__["plugins"] = plugins
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "asked", asked)
            plugins.load_all()
        assert plugins.failures == ()
        assert sorted(check.name for check in plugins.check()) == ["hooks_one", "hooks_two"]

    def test_a_second_thread_waits_for_the_plugins_that_the_first_one_imports(self, site):
        events = ModuleType("events")
        importing, proceed = threading.Event(), threading.Event()
        events.__dict__.update(importing=importing, proceed=proceed)
        site.write("hooks_one", "import events\nevents.importing.set()\nevents.proceed.wait(60)\n" + DOCTOR)
        site.add("acme", hooks={"acme": "hooks_one"})
        plugins = PluginManager(find_entries(HOOKS, site.distributions()))

        def load_and_check() -> list[str]:
            plugins.load_for({"acme"})
            return [check.name for check in plugins.check()]

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as threads:
            patch.setitem(sys.modules, "events", events)
            first = threads.submit(load_and_check)
            importing.wait(60)
            second = threads.submit(load_and_check)
            proceed.set()
            assert first.result(60) == second.result(60) == ["hooks_one"]

    def test_without_entries_it_finds_what_is_installed(self, site):
        site.write("hooks_one", DOCTOR)
        site.add("acme", hooks={"acme": "hooks_one"})
        plugins = PluginManager()
        plugins.load_for({"acme"})
        assert [check.name for check in plugins.check()] == ["hooks_one"]

    def test_a_plugin_for_another_core_is_not_imported(self, site):
        site.write("hooks_one", DOCTOR)
        site.add("acme", hooks={"acme": "hooks_one"}, requires=["pipeplug<0.1"])
        plugins = PluginManager(find_entries(HOOKS, site.distributions()))
        plugins.load_all()
        assert "acme 1.0 needs pipeplug<0.1, but pipeplug 0.1.0 is installed" in plugins.failures[0].error
        assert "hooks_one" not in sys.modules

    def test_a_hook_that_does_not_fit_is_a_failure(self, site):
        site.write("hooks_one", DOCTOR.replace("pipeplug_doctor()", "pipeplug_doctor(patient)"))
        site.add("acme", hooks={"acme": "hooks_one"})
        plugins = PluginManager(find_entries(HOOKS, site.distributions()))
        plugins.load_all()
        assert plugins.failures[0].error.startswith("the hooks of acme 1.0 (acme) do not fit: ")
        assert plugins.check() == []


class TestRegistering:
    def test_an_unknown_hook_is_refused(self, plugins: PluginManager):
        message = "acme answers the hook pipeplug_serve, which this version of pipeplug does not have"
        with pytest.raises(PluginError, match=message):
            plugins.register(module(pipeplug_serve), "acme")

    def test_what_was_refused_leaves_nothing_behind(self, plugins: PluginManager):
        both = doctor(lambda: [Check("acme", True, "")])
        both.__dict__["pipeplug_serve"] = hookimpl(pipeplug_serve)
        with pytest.raises(PluginError):
            plugins.register(both, "acme")
        assert plugins.check() == []
        plugins.register(append("a"), "next")
        assert plugins.rewrite(Graph()) == Graph(("a",))

    def test_the_same_plugin_twice_is_refused(self, plugins: PluginManager):
        plugin = append("a")
        plugins.register(plugin, "acme")
        with pytest.raises(PluginError, match="the hooks of acme are there already"):
            plugins.register(plugin, "acme")


class TestDoctor:
    def test_the_checks_of_all_come_in_order(self, plugins: PluginManager):
        plugins.register(doctor(lambda: [Check("one", True, "")]), "one")
        plugins.register(append("no doctor"), "two")
        plugins.register(doctor(lambda: [Check("three", False, "is ill", "rest"), Check("four", True, "")]), "three")
        assert [check.name for check in plugins.check()] == ["one", "three", "four"]

    def test_one_that_raises_is_a_failed_check(self, plugins: PluginManager):
        plugins.register(doctor(divide), "acme")
        plugins.register(doctor(lambda: [Check("next", True, "")]), "next")
        assert plugins.check() == [
            Check("acme", False, "its check raised ZeroDivisionError: division by zero", "tell its author"),
            Check("next", True, ""),
        ]

    def test_so_is_one_that_gives_something_else(self, plugins: PluginManager):
        plugins.register(doctor(lambda: ["fine"]), "acme")
        assert plugins.check() == [Check("acme", False, "its check gave 'fine', which is no Check", "tell its author")]


class TestRewriting:
    def test_each_plugin_gets_the_graph_of_the_one_before(self, plugins: PluginManager):
        plugins.register(append("a"), "one")
        plugins.register(rewriter(lambda graph: None), "two")
        plugins.register(append("b"), "three")
        assert plugins.rewrite(Graph()) == Graph(("a", "b"))

    def test_without_plugins_the_graph_stays(self, plugins: PluginManager):
        graph = Graph()
        assert plugins.rewrite(graph) is graph

    def test_only_the_plugins_of_the_distributions_asked_for_take_part(self, site):
        source = "from pipeplug.plugins.hookspecs import hookimpl\n@hookimpl\ndef pipeplug_rewrite(graph):\n"
        for name in ("one", "two"):
            site.write(f"hooks_{name}", f"{source}    return type(graph)((*graph.nodes, {name!r}))\n")
            site.add(f"acme-{name}", hooks={"hooks": f"hooks_{name}"})
        plugins = PluginManager(find_entries(HOOKS, site.distributions()))
        plugins.load_all()
        plugins.register(append("registered"), "without a distribution")
        assert plugins.rewrite(Graph(), {"Acme_Two"}) == Graph(("two", "registered"))
        assert plugins.rewrite(Graph(), set()) == Graph(("registered",))
        assert sorted(plugins.rewrite(Graph()).nodes) == ["one", "registered", "two"]

    def test_one_that_raises_is_named(self, plugins: PluginManager):
        plugins.register(rewriter(lambda graph: divide()), "acme 1.0")
        with pytest.raises(PluginError) as caught:
            plugins.rewrite(Graph())
        assert str(caught.value) == (
            "acme 1.0 failed to rewrite the graph (ZeroDivisionError: division by zero); "
            "tell its author, or uninstall it to run the operators as they are written"
        )

    def test_so_is_one_that_gives_no_graph(self, plugins: PluginManager):
        plugins.register(rewriter(lambda graph: "graph"), "acme 1.0")
        with pytest.raises(PluginError, match=r"acme 1\.0 rewrote the graph into str, not Graph"):
            plugins.rewrite(Graph())
