"""Seals of states that clients keep."""

import base64
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.telemetry import mask_keys as mask_keys
from inferstream.plugins.text import sealing
from inferstream.plugins.text.sealing import LIFETIME, MARK, MAX_KEYS, MAX_OPENED, MAX_SEALED, Seal
from tests.examples import examples

NAMES = ("response", "words", None)
KEY = "A" * 43
CONTENT = b'[{"role": "user", "content": "the secret of somebody"}]'


def write(path: Path, *lines: str, mode: int = 0o600) -> Path:
    path.write_text("\n".join(lines))
    path.chmod(mode)
    return path


def new_key() -> str:
    return secrets.token_urlsafe(32)


@pytest.fixture(scope="module")
def seal(tmp_path_factory: pytest.TempPathFactory) -> Seal:
    return Seal(write(tmp_path_factory.mktemp("seal") / "state.keys", new_key()))


def test_sealed_content_round_trips_and_is_hidden(seal: Seal) -> None:
    text = seal.seal(CONTENT, NAMES)
    assert text is not None
    assert seal.open(text, NAMES) == CONTENT
    assert text != seal.seal(CONTENT, NAMES)
    raw = base64.urlsafe_b64decode(text.removeprefix(MARK) + "==")
    assert b"secret" not in raw
    assert b"words" not in raw
    assert seal.seal(b"", NAMES) is not None
    assert mask_keys(f"a line with {text} in it") == "a line with ifs_*** in it"


@pytest.mark.parametrize(
    "names",
    [
        ("response", "words2", None),
        ("response", "words", ""),
        ("response", "words", "null"),
        ("responsewords", None),
        ("response", "words"),
        (),
    ],
)
def test_content_opens_only_with_its_names(seal: Seal, names: tuple[str | None, ...]) -> None:
    text = seal.seal(CONTENT, NAMES)
    assert text is not None
    assert seal.open(text, names) is None


def test_changed_character_is_detected(seal: Seal) -> None:
    text = seal.seal(CONTENT, NAMES)
    assert text is not None
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, before in enumerate(text):
        for now in {*alphabet} - {before} if place == len(text) - 1 else ("A", "z", "+", "=", "", "é", "\n"):
            if now != before:
                assert seal.open(text[:place] + now + text[place + 1 :], NAMES) is None, (place, now)
        assert seal.open(f"{text[:place]}A{text[place:]}", NAMES) is None
        assert seal.open(text[:place], NAMES) is None
    for more in ("A", "=", "==", " ", "\n"):
        assert seal.open(text + more, NAMES) is None


def test_changed_byte_is_detected(seal: Seal) -> None:
    text = seal.seal(CONTENT, NAMES)
    assert text is not None
    encoded = text.removeprefix(MARK)
    raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    for place in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[place] ^= 1 << bit
            spelt = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
            assert seal.open(MARK + spelt, NAMES) is None, (place, bit)


@examples(300)
@given(
    st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())), st.booleans()
)
def test_unsealed_text_opens_nothing(seal: Seal, text: str, marked: bool) -> None:
    assert seal.open(MARK + text if marked else text, NAMES) is None


def test_content_opens_for_30_days(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    text = seal.seal(CONTENT, NAMES)
    assert text is not None
    now = sealing.time()
    monkeypatch.setattr(sealing, "time", lambda: now + LIFETIME - 60)
    assert seal.open(text, NAMES) == CONTENT
    monkeypatch.setattr(sealing, "time", lambda: now + LIFETIME + 1)
    assert seal.open(text, NAMES) is None


def test_oversized_content_is_not_sealed(seal: Seal) -> None:
    assert seal.seal(bytes(MAX_OPENED + 1), NAMES) is None
    text = seal.seal(bytes(MAX_OPENED), NAMES)
    assert text is not None
    assert seal.open(text, NAMES) == bytes(MAX_OPENED)
    assert seal.seal(secrets.token_bytes(MAX_SEALED), NAMES) is None
    assert seal.open(MARK + "A" * MAX_SEALED, NAMES) is None


def test_decompressed_size_is_limited(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    text = seal.seal(bytes(MAX_OPENED), NAMES)
    assert text is not None
    monkeypatch.setattr(sealing, "MAX_OPENED", MAX_OPENED - 1)
    assert seal.open(text, NAMES) is None


def test_keys_rotate(tmp_path: Path) -> None:
    old, new, other = new_key(), new_key(), new_key()
    before = Seal(write(tmp_path / "before", old))
    between = Seal(write(tmp_path / "between", "# the old one leaves in 30 days", new, "", old))
    after = Seal(write(tmp_path / "after", new + "="))
    stranger = Seal(write(tmp_path / "stranger", other.replace("-", "+").replace("_", "/")))
    first, second = before.seal(CONTENT, NAMES), between.seal(CONTENT, NAMES)
    assert first is not None
    assert second is not None
    assert [each.open(first, NAMES) for each in (before, between, after)] == [CONTENT, CONTENT, None]
    assert [each.open(second, NAMES) for each in (before, between, after)] == [None, CONTENT, CONTENT]
    assert [stranger.open(text, NAMES) for text in (first, second)] == [None, None]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ((), "expected 1 to 8 keys, a line each; there are 0"),
        (("# nothing",), "there are 0"),
        (("short",), "line 1 is not 32 bytes in base64"),
        ((KEY, "a secret that is no key, and of 43 characters"), "line 2 is not 32 bytes"),
        ((KEY[:-1] + "é",), "line 1 is not"),
        ([KEY] * (MAX_KEYS + 1), "there are 9"),
    ],
)
def test_broken_file_error_hides_keys(tmp_path: Path, lines: tuple[str, ...], fault: str) -> None:
    path = write(tmp_path / "state.keys", *lines)
    with pytest.raises(InvalidSettings) as refused:
        Seal(path)
    assert fault in refused.value.message
    assert str(path) in refused.value.message
    assert not any(line in refused.value.message for line in lines if line)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="there is no such file"):
        Seal(tmp_path / "state.keys")


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o620, 0o660, 0o644])
def test_file_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "state.keys", new_key(), mode=mode)
    with pytest.raises(InvalidSettings, match="other users have access to it; chmod 600 takes it from them"):
        Seal(path)


def test_group_can_read_only_root_owned_file(tmp_path: Path) -> None:
    path = write(tmp_path / "state.keys", new_key(), mode=0o640)
    if path.stat().st_uid == 0:
        assert Seal(path)
    else:
        with pytest.raises(InvalidSettings):
            Seal(path)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inferstream.plugins.text.sealing")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MissingExtra, match=r"state_key_file needs .*; hint: pip install \"cryptography>="):
        import inferstream.plugins.text.sealing  # noqa: F401
