"""What ZooKeeper answers is told as the thing, the reason and the next thing to try, not as a bare name of a class."""

import pytest
from kazoo import exceptions as kazoo_errors

from bookie.base import errors
from bookie.runtime import zookeeper

WHAT = "create /ledgers/underreplication"


def told(error: Exception, *, wrote: bool = True) -> errors.MetadataError:
    found = zookeeper._translated(error, WHAT, wrote=wrote)
    assert str(found).startswith(f"{WHAT}: ")
    return found


def test_a_quota_that_is_used_up_is_told_with_what_helps() -> None:
    found = told(kazoo_errors.QuotaExceededError())

    assert type(found) is errors.MetadataError, "the answer came: the change did not happen"
    assert "ZooKeeper's quota is used up there: raise it" in str(found)


@pytest.mark.parametrize("error", [kazoo_errors.NoAuthError(), kazoo_errors.InvalidACLError()])
def test_a_refusal_because_of_who_we_are_says_where_that_is_set(error: Exception) -> None:
    found = told(error)

    assert isinstance(found, errors.MetadataDenied)
    assert "zkEnableSecurity" in str(found) or "saslJaasFile" in str(found)


def test_a_read_without_an_answer_asks_whether_the_store_is_up() -> None:
    found = told(kazoo_errors.ConnectionLoss(), wrote=False)

    assert type(found) is errors.MetadataError
    assert "did not answer (ConnectionLoss): is it up" in str(found)


@pytest.mark.parametrize("error", [each for each in kazoo_errors.EXCEPTIONS.values() if each is not None])
def test_no_answer_is_told_by_the_name_of_a_class_alone(error: type[Exception]) -> None:
    text = str(told(error(), wrote=False)).removeprefix(f"{WHAT}: ")

    assert not text.startswith(error.__name__)
    assert len(text.split()) >= 3
