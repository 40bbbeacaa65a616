"""One name, one role, whoever asks first."""

import pytest

from roles import Catalogue, Role, RoleError, UnknownRoleError


def test_lookup_order_and_origin():
    critic, scout = Role("critic"), Role("scout", origin="cast.py:3")
    catalogue = Catalogue([critic], origin="library")
    catalogue.add(scout)
    assert list(catalogue) == [critic, scout]
    assert catalogue.names == ("critic", "scout")
    assert len(catalogue) == 2
    assert "scout" in catalogue and "writer" not in catalogue
    assert catalogue.get("scout") is scout
    assert (catalogue.origin("critic"), catalogue.origin("scout")) == ("library", "cast.py:3")


def test_a_duplicate_names_both_places():
    catalogue = Catalogue([Role("critic")], origin="library")
    with pytest.raises(
        RoleError, match=r"two roles are called critic: one from library, one from cast/critic\.md"
    ):
        catalogue.add(Role("critic"), origin="cast/critic.md")
    assert catalogue.origin("critic") == "library"


def test_the_same_role_again_is_no_duplicate():
    critic = Role("critic")
    catalogue = Catalogue([critic, critic], origin="here")
    catalogue.add(critic, origin="there")
    assert len(catalogue) == 1
    with pytest.raises(RoleError):
        catalogue.add(Role("critic"))


def test_an_unknown_name_suggests_the_nearest():
    catalogue = Catalogue([Role("critic"), Role("scribe")])
    with pytest.raises(UnknownRoleError, match="did you mean critic"):
        catalogue.get("critc")
    with pytest.raises(UnknownRoleError, match="there are critic, scribe"):
        catalogue.origin("zzz")
    with pytest.raises(UnknownRoleError, match="no roles here"):
        Catalogue().get("critic")
    with pytest.raises(LookupError):
        catalogue.get("critic-1")
    with pytest.raises(RoleError, match="not a role"):
        catalogue.add(lambda turn: None)  # type: ignore[arg-type]
