"""Pseudonyms: what is equal stays equal, what differs differs, and NULL stays NULL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tidemark.errors import UsageError
from tidemark.redaction.pseudonyms import Pseudonyms, read_salt

SALT = b"0123456789abcdef"


@given(one=some.text(), other=some.text(), salt=some.binary(min_size=16, max_size=100))
def test_equality_is_preserved(one, other, salt):
    pseudonyms = Pseudonyms(salt)

    assert (pseudonyms.of(one) == pseudonyms.of(other)) == (one == other)
    assert pseudonyms.of(one) == Pseudonyms(salt).of(one)


@given(text=some.none() | some.text())
def test_null_stays_null_and_nothing_else_becomes_it(text):
    assert (Pseudonyms(SALT).or_null(text) is None) == (text is None)


@given(text=some.text())
def test_a_pseudonym_is_sixteen_letters_and_digits_that_hang_on_the_salt(text):
    found = Pseudonyms(SALT).of(text)

    assert len(found) == 16
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz234567")
    assert found != Pseudonyms(SALT + b"!").of(text) != Pseudonyms().of(text)


def test_a_salt_that_could_be_found_by_trying_is_refused(tmp_path):
    (tmp_path / "salt").write_bytes(b"too short")

    with pytest.raises(UsageError, match="has 9 bytes"):
        read_salt(tmp_path / "salt")
    assert read_salt(None) is None
