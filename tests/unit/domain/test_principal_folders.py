"""The folder that stands for `${principal}`: one for each, and nobody else's."""

from __future__ import annotations

import hashlib

import pytest

from armory.domain.principal import ANONYMOUS, Principal


def test_a_principals_folder_is_its_users_and_nobody_elses() -> None:
    one = Principal("a/b", user="Ann Lee")
    assert one.key == "token:a/b"
    assert one.file_safe.startswith("Ann-Lee-")
    same = [Principal("other", user="Ann Lee"), Principal("k2", user="Ann Lee", method="api_key")]
    assert {who.file_safe for who in same} == {one.file_safe}, "a rotated key is the same user"
    assert one.file_safe != Principal("x", user="Ann-Lee").file_safe
    assert Principal("ann").file_safe != Principal("x", user="ann").file_safe
    assert Principal("ann").file_safe != Principal("ann", method="jwt").file_safe
    assert len(Principal("/", user=None).file_safe) == 32
    assert ANONYMOUS.key == "anonymous:anonymous"


def test_names_that_are_made_alike_have_no_folder_together() -> None:
    one, other = Principal("a", user="ann>/: lee"), Principal("b", user="ann$)=~;lee")
    digests = [hashlib.sha256(f"user\0{who.user}".encode()).hexdigest() for who in (one, other)]
    assert {digest[:8] for digest in digests} == {"110c9fef"}  # as somebody would look for it
    assert one.file_safe != other.file_safe
    assert [one.file_safe, other.file_safe] == [f"ann-lee-{digest[:32]}" for digest in digests]


@pytest.mark.parametrize(
    ("user", "brief"),
    [
        ("ann", True),
        ("ann.lee@mail.example.org", True),
        ("0b5c1c8e-7a6f-4a0e-9d3e-0123456789ab", True),
        ("auth0|1234", True),
        ("ann+home@example.org", True),
        ("system:serviceaccount:tools:runner", True),
        ("a-b-c-d-e-f", True),
        ("a-b-c-d-e-f-g", False),
        ("a" * 40, True),
        ("a" * 41, False),
        ("ann--lee", False),
        (".ann", False),
        ("ann\n", False),
        ("änn", False),
        ("ann lee", False),
    ],
)
def test_a_plain_name_keeps_the_folder_that_it_had(user: str, *, brief: bool) -> None:
    name = Principal("a", user=user).file_safe
    digest = hashlib.sha256(f"user\0{user}".encode()).hexdigest()
    assert name.endswith(f"-{digest[: 8 if brief else 32]}")
    assert len(name) <= 73
