"""The base of every emission, and the mark by which the house knows an instance again."""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict


class Emission(BaseModel):
    """A typed payload that a role produces.

    Immutable, compared by value, and closed: a field that the type does not declare is refused. Who emitted
    it, where and when is never a field: the house stamps that on the envelope, so a payload cannot forge it.

    A type of your own is a subclass; declare it in a role's `emits=` like any other. Its kind is its class
    name.

    Raises:
        pydantic.ValidationError: a field is missing, unknown or does not hold what its type says.
    """

    # One slot beside the fields: unset it costs nothing; equality, dumps, copies and pickles never see it.
    __slots__ = ("_stamp",)

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: ClassVar[int] = 1
    """Raised when a field's meaning changes; a reader refuses a newer version by name."""

    emission_kind: ClassVar[str] = "Emission"
    """The type's name on the bus and in the journal. (Not `kind`: that is a field of ArtifactProduced.)"""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Name the type after its class."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.emission_kind = cls.__name__

    def __eq__(self, other: object) -> bool:
        """Equal when of the same type with equal fields."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        """Hash by value; mappings take no part, so that every emission can stand in a set."""
        return hash((type(self), *(value for value in self.__dict__.values() if not isinstance(value, dict))))

    def replaced(self, **changes: Any) -> Self:
        """Return a checked copy with some fields changed; unlike `model_copy(update=)` it validates.

        Raises:
            pydantic.ValidationError: as construction does.
        """
        return type(self)(**{**self.__dict__, **changes})


_STAMP: Any = Emission.__dict__["_stamp"]


def stamp(emission: Emission, token: object) -> None:
    """Mark this very instance as seen, so that the same object met again (emitted, then returned) is known.

    The mark belongs to the object, not to its value: copies do not carry it. A later mark replaces an earlier
    one.
    """
    _STAMP.__set__(emission, token)


def emission_stamp(emission: Emission) -> object | None:
    """Return what `stamp` left on this instance, or None if it was never seen."""
    try:
        token: object = _STAMP.__get__(emission)
    except AttributeError:
        return None
    return token
