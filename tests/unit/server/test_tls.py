"""What is wrong with certificates and options is said before anything starts."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.options import HttpOptions, parse_http_options
from inferstream.server.tls import load_certificates
from tests.certificates import Authority

Options = dict[str, object]


@pytest.fixture
def made(tmp_path: Path) -> Options:
    return {**Authority(tmp_path).issue("one")}


def found(options: Options, folder: Path):
    return load_certificates(options, str(folder), "setting")


def test_tls_is_off_by_default(tmp_path: Path) -> None:
    assert found({"backlog": 5}, tmp_path) is None


def test_paths_are_relative_to_the_folder_and_tls_version_is_recent(
    made: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = found({"ssl_certfile": "one.pem", "ssl_keyfile": "one.key"}, tmp_path)
    assert loaded.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert loaded.context.verify_mode is ssl.CERT_NONE
    monkeypatch.setenv("CERTIFICATES", str(tmp_path))
    named = {"ssl_certfile": "$CERTIFICATES/one.pem", "ssl_keyfile": "$CERTIFICATES/one.key"}
    assert found(named, Path("/nowhere")) is not None


def test_certificate_authority_requires_client_certificates(made: Options, tmp_path: Path) -> None:
    assert found({**made, "ssl_ca_certs": "ca.pem"}, tmp_path).context.verify_mode is ssl.CERT_REQUIRED
    optional = {**made, "ssl_ca_certs": "ca.pem", "ssl_cert_reqs": 1}
    assert found(optional, tmp_path).context.verify_mode is ssl.CERT_OPTIONAL


def _other_key(folder: Path) -> Options:
    return {"ssl_keyfile": Authority(folder / "other").issue("two")["ssl_keyfile"]}


def _locked_key(folder: Path) -> Options:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key((folder / "one.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right"))
    (folder / "locked.key").write_bytes(locked)
    return {"ssl_keyfile": "locked.key"}


def _text(folder: Path) -> Options:
    (folder / "text.pem").write_text("no certificate")
    return {"ssl_certfile": "text.pem"}


WRONG: dict[str, tuple[Callable[[Path], Options], str]] = {
    "no such certificate": (
        lambda _: {"ssl_certfile": "gone.pem"},
        r"ssl_certfile .*gone\.pem: No such file",
    ),
    "no such key": (lambda _: {"ssl_keyfile": "gone.key"}, r"ssl_keyfile .*gone\.key: No such file"),
    "no such authority": (lambda _: {"ssl_ca_certs": "gone.pem"}, r"ssl_ca_certs .*gone\.pem: No such file"),
    "a folder": (lambda _: {"ssl_certfile": "."}, "Is a directory"),
    "a key without a certificate": (lambda _: {"ssl_certfile": None}, 'needs "ssl_certfile"'),
    "a number": (lambda _: {"ssl_certfile": 5}, "must name a file"),
    "another's key": (
        _other_key,
        "belongs to another certificate; hint: name the key of this certificate in --tls-key",
    ),
    "a key with a password": (
        _locked_key,
        'its password is wrong or missing; hint: set "ssl_keyfile_password" in ',
    ),
    "no PEM": (_text, "not in PEM form; hint: name a file that begins with -----BEGIN"),
    "no authority in it": (lambda f: {"ssl_ca_certs": _text(f)["ssl_certfile"]}, "ssl_ca_certs"),
    "no cipher": (lambda _: {"ssl_ciphers": "none of these"}, "ssl_ciphers"),
    "no such requirement": (lambda _: {"ssl_cert_reqs": 7}, "ssl_cert_reqs"),
    "a requirement without an authority": (lambda _: {"ssl_cert_reqs": 2}, "ssl_ca_certs"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_tls_option_is_named_in_one_line(made: Options, tmp_path: Path, case: str) -> None:
    changed, message = WRONG[case]
    with pytest.raises(InvalidSettings, match=f"^(setting: |certificate |key ).*{message}") as raised:
        found({**made, **changed(tmp_path)}, tmp_path)
    assert "\n" not in raised.value.message


def test_key_with_password_is_read(made: Options, tmp_path: Path) -> None:
    assert found({**made, **_locked_key(tmp_path), "ssl_keyfile_password": "right"}, tmp_path) is not None


def test_changed_certificate_is_reloaded_and_invalid_one_refused(made: Options, tmp_path: Path) -> None:
    loaded = found(made, tmp_path)
    assert not loaded.detect_change()
    Authority(tmp_path / "new").issue("one")
    for name in ("one.pem", "one.key"):
        os.replace(tmp_path / "new" / name, tmp_path / name)
    assert [loaded.detect_change(), loaded.detect_change()] == [True, False]
    (tmp_path / "one.pem").write_text("no certificate")
    with pytest.raises(InvalidSettings):
        loaded.detect_change()
    (tmp_path / "one.pem").unlink()
    assert not loaded.detect_change()


def test_options_are_passed_on_or_named() -> None:
    given = {"backlog": 7, "headers": [["X-A", "b"]], "ssl_certfile": "x", "workers": 3}
    assert parse_http_options(given, "setting") == HttpOptions(backlog=7, headers=[("X-A", "b")])
    for wrong in ({"no_such": 1}, {"backlog": "many"}, {"headers": [["X-A", "b\r\n"]]}, {"date_header": 1}):
        with pytest.raises(InvalidSettings, match=f'setting: "{next(iter(wrong))}"'):
            parse_http_options(wrong, "setting")
