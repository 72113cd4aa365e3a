"""Answers that wait for an offset."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.replication.high_watermark import ParkedAnswer, ParkedAnswers


class Answers(list[ErrorCode]):
    """What one waiting producer was answered."""

    def park(self, parked: ParkedAnswers, end_offset: int) -> ParkedAnswer:
        return parked.wait_for(end_offset, self.append)


def test_an_answer_comes_when_the_high_watermark_reaches_its_offset() -> None:
    parked, first, second = ParkedAnswers(), Answers(), Answers()
    first.park(parked, 3)
    second.park(parked, 5)
    parked.settle_up_to(2, ErrorCode.none)
    assert (first, second) == ([], [])
    parked.settle_up_to(4, ErrorCode.none)
    assert (first, second) == ([ErrorCode.none], [])
    parked.settle_up_to(5, ErrorCode.not_enough_replicas_after_append)
    assert second == [ErrorCode.not_enough_replicas_after_append]
    assert len(parked) == 0


def test_a_repeated_batch_waits_at_its_own_offset_behind_later_ones() -> None:
    parked, later, repeated = ParkedAnswers(), Answers(), Answers()
    later.park(parked, 5)
    repeated.park(parked, 3)
    parked.settle_up_to(3, ErrorCode.none)
    assert (later, repeated) == ([], [ErrorCode.none])


def test_an_answer_whose_time_is_up_is_not_given_again() -> None:
    parked, told = ParkedAnswers(), Answers()
    ticket = told.park(parked, 3)
    assert ticket.is_waiting
    ticket.time_out()
    ticket.time_out()
    parked.settle_up_to(9, ErrorCode.none)
    assert told == [ErrorCode.request_timed_out]
    assert not ticket.is_waiting


def test_nobody_is_answered_who_has_left() -> None:
    parked, told = ParkedAnswers(), Answers()
    told.park(parked, 3).cancel()
    parked.settle_up_to(9, ErrorCode.none)
    parked.fail(ErrorCode.kafka_storage_error)
    assert told == []


def test_answers_that_were_given_do_not_pile_up_while_the_high_watermark_stands() -> None:
    parked, told = ParkedAnswers(), Answers()
    for offset in range(1000):
        told.park(parked, offset).time_out()
    assert len(parked) == 0
    assert len(parked._waiting) <= 1


def test_a_failed_directory_answers_all_of_them() -> None:
    parked, told = ParkedAnswers(), Answers()
    told.park(parked, 3)
    told.park(parked, 7)
    parked.fail(ErrorCode.kafka_storage_error)
    assert told == [ErrorCode.kafka_storage_error] * 2
