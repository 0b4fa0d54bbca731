"""Commands under MLServer's names."""

import pytest

from inferstream import compat

compat.install()


from inferstream import compat

compat.install()


def test_a_dockerfile_is_generated_and_written(tmp_path, monkeypatch) -> None:
    from mlserver.cli.build import generate_dockerfile, write_dockerfile

    monkeypatch.chdir(tmp_path)
    path = write_dockerfile(str(tmp_path), generate_dockerfile())
    assert (tmp_path / "Dockerfile").read_text().startswith("# Written by")
    assert path == str(tmp_path / "Dockerfile")


@pytest.mark.parametrize("conda", [False, True])
def test_a_dockerfile_may_have_a_base_image_of_the_user(
    tmp_path, monkeypatch: pytest.MonkeyPatch, conda: bool
) -> None:
    from mlserver import __version__
    from mlserver.cli.build import generate_dockerfile

    monkeypatch.chdir(tmp_path)
    if conda:
        (tmp_path / "environment.yml").touch()
    plain, own = generate_dockerfile(), generate_dockerfile(base_image="own/image:{version}-slim")
    images = [line.split()[1] for line in own.splitlines() if line.startswith("FROM ")]
    base = f"own/image:{__version__}-slim"
    assert images == (["condaforge/miniforge3", base] if conda else [base, base])
    changed = [(a, b) for a, b in zip(plain.splitlines(), own.splitlines(), strict=True) if a != b]
    assert all(b.startswith(f"FROM {base}") for _, b in changed)
