from __future__ import annotations

from tidelog.model.entropy import Entropy
from tidelog.model.ids import uuid_text
from tidelog.shell.entropy import SystemEntropy


def test_identities_differ_and_do_not_look_like_options() -> None:
    entropy: Entropy = SystemEntropy()
    identities = {entropy.uuid() for _ in range(2000)}
    assert len(identities) == 2000
    assert not any(uuid_text(identity).startswith("-") for identity in identities)


def test_numbers_cover_their_range_and_stay_below_the_bound() -> None:
    entropy = SystemEntropy()
    for bound in (1, 2, 3, 7, 256, 257):
        drawn = {entropy.below(bound) for _ in range(60 * bound)}
        assert drawn <= set(range(bound))
        assert len(drawn) > bound // 2
