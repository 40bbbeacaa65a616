"""What a task wrote, as its value holds it: ``{key: value}``, or a list where one key comes twice.

``[[key, value, overwrite], ...]`` is the long form, for several writes to one key and for Overwrite.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Written", "behind", "encode_writes", "keys_of", "only_write", "written"]


class Written(msgspec.Struct, frozen=True, array_like=True):
    """One write; ``overwrite`` sets the channel aside of its reducer."""

    key: str
    value: msgspec.Raw
    overwrite: bool = False


_read_map = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_list = msgspec.json.Decoder(list[Written]).decode
_encoder = msgspec.json.Encoder()


def written(raw: bytes | None) -> list[Written]:
    """The writes of a task in the order in which it made them; none for one that has no value."""
    if raw is None or raw in {b"{}", b"null"}:
        return []
    if raw[:1] == b"{":
        return [Written(key, value) for key, value in _read_map(raw).items()]
    return _read_list(raw)


def keys_of(raw: bytes) -> dict[str, msgspec.Raw]:
    """The writes of a task whose value is a mapping, by key."""
    return _read_map(raw)


def only_write(raw: bytes | None, key: str) -> bytes | None:
    """The task's write to ``key`` if it made exactly one, else None."""
    if raw is not None and raw[:1] == b"{":
        one = _read_map(raw).get(key)
        return None if one is None else bytes(one)
    found = [one for one in written(raw) if one.key == key]
    return bytes(found[0].value) if len(found) == 1 else None


def encode_writes(writes: Sequence[Written]) -> bytes:
    """The shortest form that says the same."""
    if len(writes) == 1 and not writes[0].overwrite:
        return _encoder.encode({writes[0].key: writes[0].value})
    keys = {one.key for one in writes}
    if len(keys) == len(writes) and not any(one.overwrite for one in writes):
        return _encoder.encode({one.key: one.value for one in writes})
    return _encoder.encode(writes)


def behind(present: bytes, more: bytes) -> bytes:
    """JSON of two lists, or of two texts, one behind the other.

    Raises:
        ValueError: they are not both lists or both texts.
    """
    if present[:1] != more[:1] or present[:1] not in {b"[", b'"'}:
        message = "only a list goes behind a list, and a text behind a text"
        raise ValueError(message)
    if len(more) == 2:  # noqa: PLR2004 (an empty list or text)
        return present
    if len(present) == 2:  # noqa: PLR2004 (the same)
        return more
    return present[:-1] + (b"," if present[:1] == b"[" else b"") + more[1:]
