"""MD5 sums against the values that AWS publishes for its SDKs' tests."""

import pytest

from holdfast.protocol.digests import attributes_md5, body_md5
from tests.compatibility.claims import proves

VECTORS = {
    "19e27d4e946b072f3f58da80d94fd778": ("attribName1", "String", "attribValue 1"),
    "9fe1b90bbd9965bdf77bac517c7d2495": (
        "customNumberTypeAttrib",
        "Number.float",
        "4563442423554324324264524243.32543234",
    ),
    "31a92b15d92f8db860eda32aceb656c3": ("binaryAttribute", "Binary", b"Hello binary world!"),
    "5ae4d5d7636402d80f4eb6d213245a88": (
        "AWSTraceHeader",
        "String",
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
    ),
}


@proves("md5")
@pytest.mark.parametrize(("expected", "attribute"), VECTORS.items())
def test_known_attributes_have_their_known_digest(expected: str, attribute: tuple[str, str, str | bytes]) -> None:
    assert attributes_md5([attribute]) == expected


def test_the_order_in_which_attributes_are_given_does_not_matter() -> None:
    one, two = ("a", "String", "1"), ("b", "Binary", b"2")
    assert attributes_md5([one, two]) == attributes_md5([two, one])


def test_the_digest_of_a_body_is_its_md5() -> None:
    assert body_md5(b"hello world").hex() == "5eb63bbbe01eeed093cb22bb8f5acdc3"
