"""The worker's log is kept short."""

from pathlib import Path

from halftone.client.logs import KEPT, MAX_BYTES, last_lines, worker_log


def test_a_full_log_is_rotated_and_the_oldest_goes(own_data: Path) -> None:
    for number in range(KEPT + 2):
        path = worker_log()
        assert path is not None
        assert path.read_bytes() == b""
        path.write_bytes(str(number).encode() * (MAX_BYTES + 1))
    assert worker_log() == own_data / "logs" / "worker.log"
    names = sorted(file.name for file in (own_data / "logs").iterdir())
    assert names == ["worker.log", *(f"worker.log.{number}" for number in range(1, KEPT + 1))]
    assert (own_data / "logs" / "worker.log.1").read_bytes()[:1] == str(KEPT + 1).encode()


def test_a_short_log_goes_on() -> None:
    first, again = worker_log(), None
    if first is not None:
        first.write_text("first")
        again = worker_log()
    assert again is not None
    assert again.read_text() == "first"


def test_the_end_of_the_log_goes_into_the_details(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert last_lines(log) == ""
    log.write_text("é" * 100 + "the end", encoding="utf-8")
    assert last_lines(log, 7) == "the end"
    assert last_lines(log, 8).endswith("the end")
