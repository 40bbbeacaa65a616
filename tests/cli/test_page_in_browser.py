"""The page of a run in a real browser: nothing in it runs, nothing is fetched, texts of others are text."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.program import call, flow

BROWSER = os.environ.get("CHROMIUM") or next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The address of a server of ours, and the paths that anybody has asked it for."""
    paths: list[str] = []

    class Counting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="there is no Chromium here; CHROMIUM names one")
def test_no_request_leaves_the_page(tmp_path: Path, asked: tuple[str, list[str]]):
    """show --html in headless Chromium: markup of roles is shown, not obeyed; no request is made."""
    address, paths = asked
    script = f"<script>fetch('{address}/script')</script>"
    evil = f"<img src={address}/img>{script}<svg onload=fetch('{address}/on')>"
    flow(
        tmp_path,
        f'  a: {{role: echo, with: {{value: "{evil}"}}}}\n'
        f'  g: {{role: judge, gate: true, with: {{verdict: REJECT, why: "{evil}"}}}}\n'
        f'  x: {{role: boom, with: {{text: "{evil}"}}}}\n',
        "on_failure: continue",
    )
    assert call("run", "--quiet", cwd=tmp_path).returncode == 1
    assert call("show", "last", "--html", "run.html", cwd=tmp_path).returncode == 0
    page, profile = (tmp_path / "run.html").as_uri(), tmp_path / "profile"
    done = subprocess.run(
        [BROWSER, *QUIET, f"--user-data-dir={profile}", "--dump-dom", page],
        cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert "<h1>tried: failed</h1>" in done.stdout, done.stderr
    assert f"&lt;img src={address}/img&gt;&lt;script&gt;" in done.stdout
    assert "<img" not in done.stdout
    assert "<script" not in done.stdout
    assert paths == []
