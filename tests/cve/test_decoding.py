"""Small images that become large ones, or programs, and decoders whose errors hold addresses of memory."""

import base64
import io
import json
import re
import struct
import zlib

import pytest
from PIL import Image

from tests.cve.audited import Audited
from tests.cve.surfaces import everywhere
from tests.serving import Running

CVES = ("CVE-2026-34755", "CVE-2026-5497", "CVE-2026-22773", "CVE-2026-22778")

ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}| at 0x|object at|BytesIO")


def png(width: int, height: int) -> bytes:
    """The file of an image of zeros, of a size that is not its own."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(99)))
        + chunk(b"IEND", b"")
    )


def frames(count: int) -> bytes:
    file = io.BytesIO()
    each = [Image.new("P", (1, 1), color) for color in range(2)] * (count // 2)
    each[0].save(file, "GIF", save_all=True, append_images=each[1:])
    return file.getvalue()


WRONG = {
    "no image": b"none",
    "nothing": b"",
    "too many pixels": png(10_000, 10_000),
    "far too many pixels": png(2**31 - 1, 2**31 - 1),
    "a cut image": png(8, 8)[:60],
    "a program": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 3\n%%EndComments\n(x) (w) file\n%%EOF\n",
    "a wrong header": b"DDS " + struct.pack("<7I44x8I20x", 124, 0, 1, 1, 0, 0, 0, 32, 1, 0, 0, 0, 0, 0, 0),
}


def sent(server: Running, file: bytes, codec: str) -> tuple[int, str]:
    data = base64.b64encode(file).decode()
    if codec != "pillow_image":
        data = json.dumps({"image": f"data:image/png;base64,{data}"})
    tensor = {
        "name": "x",
        "datatype": "BYTES",
        "shape": [1],
        "data": [data],
        "parameters": {"content_type": codec},
    }
    found = server.infer("decoding", {"inputs": [tensor]})
    return found.status_code, found.text


@pytest.mark.parametrize("codec", ["pillow_image", "hg_json", "hg_jsonlist"])
@pytest.mark.parametrize("name", WRONG)
def test_decompression_bomb_image_is_refused(watched: Audited, name: str, codec: str) -> None:
    status, text = sent(watched, WRONG[name], codec)
    assert (status, ADDRESS.search(text)) == (400, None), text
    assert watched.done("subprocess.") == []


def test_only_first_frame_is_decoded(watched: Audited) -> None:
    before = watched.rss()
    assert sent(watched, frames(20_000), "pillow_image")[0] == 200
    assert watched.rss() < before + 200 * 2**20


def test_small_image_is_accepted(watched: Audited) -> None:
    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "PNG")
    assert sent(watched, file.getvalue(), "pillow_image")[0] == 200


@pytest.mark.parametrize("text", ["\x00", "🦀{\\"])
def test_errors_contain_no_memory_address(watched: Audited, text: str) -> None:
    for answer in everywhere(watched, text):
        assert not ADDRESS.search(answer.body.decode(errors="replace")), answer
