"""Kernels are read only from a folder in which nobody but their user can write: numba unpickles what is there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from quarto import jit, sources

STRANGER = 54_321  # a user and a group that do not exist


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache that its user has used before, in a folder of the user's."""
    root = tmp_path / "around/cache"
    monkeypatch.setenv("QARENA_CACHE", str(root))
    assert find_directory().is_relative_to(root)
    return root


def find_directory() -> Path:
    """Return the folder of kernels as another process would find it."""
    return jit.ensure_usable_cache_directory.__wrapped__()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_of_the_cache_are_made_for_their_user_alone(cache: Path, tmp_path: Path) -> None:
    assert {mode_of(path) for path in (tmp_path / "around", *cache.parent.rglob("*"))} == {0o700}
    kernels = find_directory()
    kernels.chmod(0o755)  # as a copy may have it
    assert (find_directory(), mode_of(kernels)) == (kernels, 0o700)


OPENED: dict[str, Callable[[Path], Path]] = {
    "the kernels": lambda _cache: find_directory(),
    "the folder of all kernels": lambda cache: cache / "kernels",
    "the cache": lambda cache: cache,
    "the folder around it": lambda cache: cache.parent,
}


@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_a_cache_where_others_can_write_is_not_read(
    name: str, mode: int, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = OPENED[name](cache)
    folder.chmod(mode)
    caplog.clear()
    directories = [find_directory(), find_directory()]
    assert not any(directory.is_relative_to(cache) for directory in directories)
    assert mode_of(directories[0].parent) == 0o700
    (message,) = caplog.messages  # once
    assert f"others may write to {folder} (mode {mode:o})" in message
    assert "QARENA_CACHE" in message


def test_in_a_sticky_folder_of_all_users_the_cache_is_its_users(cache: Path) -> None:
    cache.parent.chmod(0o1777)
    assert find_directory().is_relative_to(cache)
    find_directory().chmod(0o1777)
    assert not find_directory().is_relative_to(cache)


def test_a_link_to_a_folder_where_others_can_write_is_followed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, relative = tmp_path / "link", tmp_path / "relative"
    link.symlink_to(cache)
    relative.symlink_to("link")
    for path in (link, relative):
        monkeypatch.setenv("QARENA_CACHE", str(path))
        cache.parent.chmod(0o700)
        assert find_directory().is_relative_to(path)
        cache.parent.chmod(0o777)
        assert not find_directory().is_relative_to(path)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``path`` belong to another user, or, if only root could do that, have this user be another one."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


@pytest.mark.parametrize("name", OPENED)
def test_a_folder_of_another_user_is_not_read(
    name: str, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(OPENED[name](cache), monkeypatch)
    caplog.clear()
    assert not find_directory().is_relative_to(cache)
    assert "belongs to user id" in caplog.text


def test_a_link_of_another_user_is_not_followed(
    cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(cache)
    monkeypatch.setenv("QARENA_CACHE", str(link))
    give_away(link, monkeypatch)
    caplog.clear()
    assert not find_directory().is_relative_to(link)
    assert "belongs to user id" in caplog.text


def test_the_group_of_its_user_alone_may_write(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the group of the user's name, because many systems make all folders writable for it."""
    import grp
    import pwd

    cache.chmod(0o770)
    user, group = pwd.getpwuid(os.geteuid()), cache.stat().st_gid
    if group != sources.ROOT_USER:
        is_user_group = user.pw_gid == group and grp.getgrgid(group).gr_name == user.pw_name
        assert find_directory().is_relative_to(cache) == is_user_group
    monkeypatch.setattr(sources, "ROOT_USER", STRANGER)  # so that root is a user like any other
    alone = grp.struct_group((user.pw_name, "x", user.pw_gid, []))
    for members, is_private in (((), True), ((user.pw_name,), True), ((user.pw_name, "other"), False)):
        monkeypatch.setattr(grp, "getgrgid", lambda _gid, names=members: grp.struct_group((*alone[:3], list(names))))
        status = os.stat_result((0o40770, 0, 0, 0, user.pw_uid, user.pw_gid, 0, 0, 0, 0))
        assert sources._is_writable_beyond_own_group(status) != is_private
