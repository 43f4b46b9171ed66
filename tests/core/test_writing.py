"""Files are replaced whole; links, pipes, devices and modes stay what they are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.core.files import atomic_path, write_atomically


def test_a_link_is_followed_and_the_mode_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"data")
    reader.join(10)
    assert got == [b"data"]
    assert pipe.is_fifo()


def test_a_full_device_is_an_error_and_stays_a_device() -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("no /dev/full here")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(full, b"x" * 100)
    assert full.is_char_device()


def test_a_failing_block_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fail_halfway() -> None:
        with atomic_path(tmp_path / "a") as part:
            part.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert (tmp_path / "a").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "a", b"x")
