"""Roles that every project has: of the config folder, of installed packages, of the library (roles.md)."""

import sys

import pytest

from roles import RoleError, library
from roles.discovery import GROUP, config_folder, shared_roles


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("CALLBOARD_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config/cast").mkdir(parents=True)
    return tmp_path / "config"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package whose entry points are the given texts."""

    def install(module: str, *entries: str):
        home = tmp_path / "site"
        info = home / "offered-1.dist-info"
        info.mkdir(parents=True)
        (home / "offered_roles.py").write_text(f"from roles import Role\n{module}\n")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "\n".join(entries) + "\n")
        monkeypatch.syspath_prepend(str(home))
        monkeypatch.delitem(sys.modules, "offered_roles", raising=False)

    yield install
    sys.modules.pop("offered_roles", None)


def test_where_the_config_folder_is(tmp_path, monkeypatch):
    monkeypatch.delenv("CALLBOARD_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_folder() == tmp_path / "callboard"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_folder() == tmp_path / ".config/callboard"


def test_without_any_it_is_the_library(config):
    assert shared_roles().names == tuple(role.name for role in library())


def test_roles_of_the_config_folder(config):
    (config / "cast/tidier.md").write_text("---\ndescription: tidies\n---\nYou tidy.\n")
    found = shared_roles()
    assert found.get("tidier").body.strip() == "You tidy."
    assert "tidier.md" in found.origin("tidier")


def test_one_of_the_library_s_name_names_both_places(config):
    (config / "cast/critic.md").write_text("---\ndescription: judges\n---\nYou judge.\n")
    with pytest.raises(RoleError, match=r"two roles are called critic: one from .*critic\.md.*, one from "):
        shared_roles()


@pytest.mark.parametrize("entry", ["one = offered_roles:mine", "many = offered_roles:several"])
def test_roles_of_packages(config, package, entry):
    """A role, or a function that gives some."""
    package("mine = Role('mine')\ndef several(): return [mine]", entry)
    assert shared_roles().origin("mine") == f"the entry point {entry}"


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("bad = offered_roles:absent", "cannot be loaded: AttributeError"),
        ("bad = offered_roles:number", "gives a int"),
        ("bad = offered_roles:mixed", "gives a str among its roles"),
        ("bad = offered_roles:breaks", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_a_package_that_offers_no_roles(config, package, entry, fault):
    package("number = 3\nmixed = ['x']\ndef breaks(): return 1 / 0", entry)
    with pytest.raises(RoleError, match=rf"entry point bad = .* of callboard\.roles {fault}"):
        shared_roles()
