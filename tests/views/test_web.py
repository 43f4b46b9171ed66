"""The scripts that pages carry are the build of their sources; nothing of a registry is in them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
BUNDLES = ROOT / "src" / "timeroof" / "views" / "assets" / "scripts"


def npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of our own scripts; the test skips where Node or its packages are absent."""
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed: apt-get install nodejs npm")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("web/node_modules is absent: make web")
    return subprocess.run(
        ["npm", "run", "--silent", *arguments], cwd=WEB, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("script", ["built", "lint", "types"])
def test_the_scripts_are_checked_and_their_committed_bundle_is_their_build(script: str) -> None:
    done = npm(script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_bundle_ends_its_own_element() -> None:
    for bundle in BUNDLES.glob("*.js"):
        text = bundle.read_text("utf-8").lower()
        assert "</script" not in text
        assert "<!--" not in text


def test_the_lock_file_names_no_registry() -> None:
    text = (WEB / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]
    assert packages
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert "omit-lockfile-registry-resolved=true" in (WEB / ".npmrc").read_text("utf-8").split()
