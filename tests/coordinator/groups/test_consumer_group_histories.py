"""Histories of a group of the consumer protocol, with members that follow the rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.group_bench import GroupBench
from tests.tiers import examples

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.topics import IdPartition
from tidelog.model.errors import ErrorCode

NAMES = ("a", "b", "c", "d")


@dataclass
class Client:
    """A consumer that gives back what it is told to, one heartbeat later."""

    name: str
    epoch: int = 0
    owned: frozenset[IdPartition] = frozenset()
    rebalance_ms: int = 30_000
    is_in: bool = False


@dataclass
class History:
    """A group, its clients, and what must hold after every step."""

    bench: GroupBench = field(default_factory=GroupBench)
    clients: dict[str, Client] = field(
        default_factory=lambda: {name: Client(name) for name in NAMES}
    )

    def beat(self, client: Client) -> None:
        if not client.is_in:
            client.epoch, client.owned, client.is_in = 0, frozenset(), True
        told = {} if client.epoch == 0 else {"owned": client.owned}
        reply = self.bench.beat(client.name, client.epoch, rebalance_ms=client.rebalance_ms, **told)
        if isinstance(reply, ErrorCode):
            client.is_in = False
            return
        client.epoch = reply.member_epoch
        if reply.assignment is not None:
            client.owned = reply.assignment

    def retell(self, client: Client) -> None:
        """Tell something else, which is stored anew although what the member has stays."""
        client.rebalance_ms += 1000
        self.beat(client)

    def leave(self, client: Client) -> None:
        if client.is_in:
            self.bench.beat(client.name, -1)
            client.is_in = False

    def fail_over(self) -> None:
        before = self.stored()
        self.bench.fail_over()
        assert self.stored() == before, "a coordinator read something else from the log"

    def stored(self) -> dict[str, Any]:
        """Everything about the group that must survive."""
        group = self.bench.shard.groups.get("group")
        known = {} if group is None else vars(group)
        return {name: value for name, value in known.items() if name != "topics_seen"}

    def check(self) -> None:
        owned = [
            place for client in self.clients.values() if client.is_in for place in client.owned
        ]
        assert len(owned) == len(set(owned)), "a partition is read by two"
        group = self.bench.shard.groups.get("group")
        if not isinstance(group, ConsumerGroup):
            return
        held = [place for member in group.members.values() for place in member.held]
        assert len(held) == len(set(held)), "a partition is held by two"
        assert set(held) == set(group.holders)

    def settle(self) -> None:
        for _ in range(12):
            for client in self.clients.values():
                if client.is_in:
                    self.beat(client)
                    self.check()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.sampled_from(NAMES)),
        st.tuples(st.just("retell"), st.sampled_from(NAMES)),
        st.tuples(st.just("leave"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.just("")),
        st.tuples(st.just("grow"), st.just("")),
        st.tuples(st.just("fail over"), st.just("")),
        st.tuples(st.just("compact"), st.just("")),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(
    history: list[tuple[str, str]],
) -> None:
    told = History()
    partitions = 3
    told.bench.topics.put("orders", partitions)
    for what, name in history:
        if what == "beat":
            told.beat(told.clients[name])
        elif what == "retell":
            told.retell(told.clients[name])
        elif what == "leave":
            told.leave(told.clients[name])
        elif what == "wait":
            told.bench.wait(20_000)
            for client in told.clients.values():
                group = told.bench.shard.groups.get("group")
                is_known = isinstance(group, ConsumerGroup) and client.name in group.members
                client.is_in = client.is_in and is_known
        elif what == "grow":
            partitions += 1
            told.bench.topics.put("orders", partitions)
        else:
            if what == "compact":
                told.bench.compact()
            told.fail_over()
        told.check()
    told.settle()
    readers = [client for client in told.clients.values() if client.is_in]
    if readers:
        shares = sorted(len(client.owned) for client in readers)
        assert sum(shares) == partitions
        assert shares[-1] - shares[0] <= 1
        assert told.bench.state == "Stable"
