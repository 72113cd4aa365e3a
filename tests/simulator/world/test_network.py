"""The network: TCP's manners under every fault."""

from __future__ import annotations

import pytest

from tidelog.simulator.world.conditions import Conditions
from tidelog.simulator.world.network import GIVE_UP_US, End, Network
from tidelog.simulator.world.paths import Slowness, apart, one_way, ring
from tidelog.simulator.world.timeline import Timeline

PORT = 9092
LATENCY_US = 1_000


class Peer:
    """A host that writes down what it hears."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.zone = f"zone of {name}"
        self.address = f"address of {name}"
        self.powered = True
        self.ports = {PORT: "PLAINTEXT"}
        self.heard: list[tuple[int, object]] = []
        self.ends: list[End] = []
        self.timeline: Timeline

    def listening(self, port: int) -> str | None:
        return self.ports.get(port)

    def accepted(self, end: End, listener: str, peer_address: str) -> None:
        self.ends.append(end)
        self._hear(("accepted", listener, peer_address))

    def connected(self, end: End) -> None:
        self.ends.append(end)
        self._hear("connected")

    def frame_arrived(self, end: End, frame: bytes) -> None:
        self._hear(frame)

    def disconnected(self, end: End, reason: str) -> None:
        self._hear(("closed", reason))

    def _hear(self, what: object) -> None:
        self.heard.append((self.timeline.now_us, what))

    @property
    def words(self) -> list[object]:
        return [what for _, what in self.heard]


class Pair:
    """Two hosts and a network, connected unless asked otherwise."""

    def __init__(self, conditions: Conditions | None = None, *, seed: int = 1) -> None:
        self.timeline = Timeline()
        everyday = Conditions(latency_us=LATENCY_US, jitter_us=0)
        self.network = Network(self.timeline, conditions or everyday, seed)
        self.near, self.far = Peer("near"), Peer("far")
        for host in (self.near, self.far):
            host.timeline = self.timeline
            self.network.add(host)

    def connect(self, port: int = PORT) -> End:
        return self.network.connect(self.near, 1, self.far.address, port, self.timeline.now_us)

    def connected(self) -> End:
        end = self.connect()
        self.run(10_000)
        for host in (self.near, self.far):
            host.heard.clear()
        return end

    def send(self, end: End, *frames: bytes) -> None:
        for frame in frames:
            self.network.send(end, frame, self.timeline.now_us)

    def run(self, ms: int) -> None:
        self.timeline.run_until(self.timeline.now_us + ms * 1000, 1_000_000)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_connection_takes_a_round_trip(pair: Pair) -> None:
    pair.connect()
    pair.run(10)

    assert pair.far.heard == [(LATENCY_US, ("accepted", "PLAINTEXT", pair.near.address))]
    assert pair.near.heard == [(2 * LATENCY_US, "connected")]


def test_a_closed_port_and_an_unknown_address_refuse(pair: Pair) -> None:
    pair.connect(port=1)
    pair.network.connect(pair.near, 2, "nowhere", PORT, 0)
    pair.run(10)

    assert pair.near.words == [("closed", "connection refused")] * 2


def test_a_silent_host_is_tried_again_and_given_up_in_the_end(pair: Pair) -> None:
    pair.far.powered = False
    pair.connect()
    pair.run(20_000)

    assert pair.near.words == [("closed", "connection timed out")]


def test_a_host_that_comes_back_in_time_is_connected_to(pair: Pair) -> None:
    pair.far.powered = False
    pair.connect()
    pair.run(500)
    pair.far.powered = True
    pair.run(10_000)

    assert pair.near.words == ["connected"]


def test_frames_arrive_whole_and_in_order() -> None:
    pair = Pair(Conditions(latency_us=10, jitter_us=50_000, loss_ppm=300_000))
    end = pair.connected()
    frames = [bytes([number]) * number for number in range(100)]

    pair.send(end, *frames)
    pair.run(600_000)

    assert pair.far.words == frames


def test_bandwidth_makes_large_frames_late() -> None:
    pair = Pair(Conditions(latency_us=LATENCY_US, jitter_us=0, bytes_per_s=1_000_000))
    end = pair.connected()
    began = pair.timeline.now_us

    pair.send(end, bytes(500_000), bytes(500_000))
    pair.run(2_000)

    assert [at - began for at, _ in pair.far.heard] == [501_000, 1_001_000]


def test_a_cut_path_is_silent_until_it_is_mended(pair: Pair) -> None:
    end = pair.connected()
    pair.network.paths.cut(apart(["near"], ["far"]))
    pair.send(end, b"one", b"two")
    pair.run(10_000)
    assert pair.far.words == []

    pair.network.paths.mend_all()
    pair.network.paths_changed()
    pair.run(1_000)

    assert pair.far.words == [b"one", b"two"]


def test_what_is_under_way_when_a_path_is_cut_keeps_its_place(pair: Pair) -> None:
    end = pair.connected()
    pair.send(end, b"one")
    pair.network.paths.cut(one_way(["near"], ["far"]))
    pair.send(end, b"two")
    pair.run(100)
    pair.network.paths.mend_all()
    pair.network.paths_changed()
    pair.send(end, b"three")
    pair.run(1_000)

    assert pair.far.words == [b"one", b"two", b"three"]


def test_a_one_way_cut_leaves_the_other_direction_open(pair: Pair) -> None:
    end = pair.connected()
    back = pair.far.ends[0]
    pair.network.paths.cut(one_way(["near"], ["far"]))

    pair.send(end, b"unheard")
    pair.send(back, b"heard")
    pair.run(1_000)

    assert pair.far.words == []
    assert pair.near.words == [b"heard"]


def test_who_waits_too_long_gives_up_and_the_other_finds_out_by_speaking(pair: Pair) -> None:
    end = pair.connected()
    back = pair.far.ends[0]
    pair.network.paths.cut(apart(["near"], ["far"]))
    pair.send(end, b"lost")
    pair.run(GIVE_UP_US // 1000 + 10)
    assert pair.near.words == [("closed", "connection timed out")]
    assert pair.far.words == []

    pair.network.paths.mend_all()
    pair.network.paths_changed()
    pair.send(back, b"anybody there?")
    pair.run(1_000)

    assert pair.far.words == [("closed", "connection reset by peer")]


def test_a_goodbye_comes_after_everything_sent_before(pair: Pair) -> None:
    end = pair.connected()
    pair.send(end, b"last words")
    pair.network.close(end, "done", pair.timeline.now_us)
    pair.send(end, b"never sent")
    pair.run(10)

    assert pair.far.words == [b"last words", ("closed", "done")]
    assert pair.near.words == []


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_process_says_goodbye_after_a_prefix_of_its_words(seed: int) -> None:
    pair = Pair(seed=seed)
    end = pair.connected()
    pair.send(end, b"1", b"2", b"3")
    pair.network.abort(end, "reset")
    pair.run(10)

    *frames, last = pair.far.words
    assert frames == [b"1", b"2", b"3"][: len(frames)]
    assert last == ("closed", "reset")


def test_a_machine_without_power_says_nothing_until_it_is_back(pair: Pair) -> None:
    end = pair.connected()
    back = pair.far.ends[0]
    pair.network.vanish(end)
    pair.near.powered = False
    pair.run(10_000)
    assert pair.far.words == []

    pair.send(back, b"are you there?")
    pair.run(10_000)
    assert pair.far.words == []
    pair.near.powered = True
    pair.network.paths_changed()
    pair.run(1_000)

    assert pair.far.words == [("closed", "connection reset by peer")]


def test_a_reset_loses_what_is_under_way_in_both_directions(pair: Pair) -> None:
    end = pair.connected()
    pair.send(end, b"half of it")
    pair.send(pair.far.ends[0], b"the other half")

    assert pair.network.reset_between("far", "near") == 1
    pair.run(1_000)

    assert pair.near.words == pair.far.words == [("closed", "connection reset")]


def test_what_is_on_the_wire_arrives_before_the_reset_of_its_sender(pair: Pair) -> None:
    end = pair.connected()
    pair.send(end, b"one", b"two")
    pair.network.reset(end, pair.timeline.now_us)
    pair.send(end, b"three")
    pair.run(10)

    assert pair.far.words == [b"one", b"two", ("closed", "connection reset by peer")]
    assert pair.near.words == []


def test_what_was_lost_before_a_reset_is_not_sent_again() -> None:
    pair = Pair(Conditions(latency_us=LATENCY_US, jitter_us=0, bytes_per_s=1_000_000))
    end = pair.connected()
    pair.send(end, bytes(1_000), bytes(500_000))
    pair.network.reset(end, pair.timeline.now_us + 2_000)
    pair.run(2_000)

    assert pair.far.words == [bytes(1_000), ("closed", "connection reset by peer")]


def test_a_reset_across_a_cut_is_never_heard_of_and_nothing_comes_after_it(pair: Pair) -> None:
    end = pair.connected()
    pair.network.paths.cut(apart(["near"], ["far"]))
    pair.send(end, b"one")
    pair.run(1_000)
    pair.network.reset(end, pair.timeline.now_us)
    pair.network.paths.mend_all()
    pair.network.paths_changed()
    pair.run(2 * GIVE_UP_US // 1000)
    assert pair.far.words == []

    pair.send(pair.far.ends[0], b"are you there?")
    pair.run(10)
    assert pair.far.words == [("closed", "connection reset by peer")]
    assert pair.near.words == []


def test_a_close_across_a_cut_is_heard_of_after_everything_before_it(pair: Pair) -> None:
    end = pair.connected()
    pair.network.paths.cut(apart(["near"], ["far"]))
    pair.send(end, b"one")
    pair.network.close(end, "enough", pair.timeline.now_us)
    pair.run(1_000)
    pair.network.paths.mend_all()
    pair.network.paths_changed()
    pair.run(1_000)

    assert pair.far.words == [b"one", ("closed", "enough")]


def test_a_slow_path_is_slow_in_its_own_direction_only(pair: Pair) -> None:
    end = pair.connected()
    pair.network.paths.slow(one_way(["near"], ["far"]), Slowness(70_000, 0, 1_000_000_000))
    began = pair.timeline.now_us

    pair.send(end, b"slow")
    pair.send(pair.far.ends[0], b"fast")
    pair.run(1_000)

    assert pair.far.heard == [(began + 71_000, b"slow")]
    assert pair.near.heard == [(began + LATENCY_US, b"fast")]


def test_hosts_can_be_cut_off_by_the_name_they_share(pair: Pair) -> None:
    end = pair.connected()
    pair.network.paths.cut([("zone of near", "zone of far")])
    pair.send(end, b"unheard")
    pair.run(1_000)
    assert pair.far.words == []

    assert pair.network.reset_between("zone of far", "zone of near") == 1


def test_in_a_ring_everybody_hears_two_neighbours() -> None:
    assert ring(["a", "b", "c"]) == ()
    assert set(ring(["a", "b", "c", "d"])) == {("a", "c"), ("c", "a"), ("b", "d"), ("d", "b")}


def test_connections_that_are_over_leave_nothing_behind(pair: Pair) -> None:
    for _ in range(10):
        end = pair.connect()
        pair.run(10)
        pair.network.close(end, "done", pair.timeline.now_us)
        pair.run(10)

    assert pair.network.reset_between("near", "far") == 0
    assert pair.network.open_connections == 0
