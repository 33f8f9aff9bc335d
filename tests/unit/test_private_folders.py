"""A scratch folder is used only if nobody else could have prepared it, or can put another in its place."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import platformdirs
import pytest

from tests.attacks import Give, give_away
from watersmeet import private_folders
from watersmeet.errors import UnsafeFolderError
from watersmeet.private_folders import (
    cache_folders,
    kept_file,
    made_private,
    named_after_user,
    private_folder,
    scratch_folder,
    temporary_root,
)
from watersmeet.temporary_folders import temporary_folder
from watersmeet.warning import StateWarning

__all__ = ["give_away"]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def loose_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("loose_umask")
def test_what_is_made_is_for_its_user_alone(tmp_path: Path) -> None:
    with private_folder(tmp_path / "a" / "b") as folder, folder.below("c") as inner:
        with inner.write("file") as file:
            file.write(b"x")
        with inner.read("file") as file:
            assert file.read() == b"x"
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert [mode_of(path) for path in made] == [0o700] * 3
    assert mode_of(made[-1] / "file") == 0o600


def test_a_folder_of_ours_that_others_may_only_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    assert mode_of(made_private(tmp_path / "a")) == 0o700


def test_a_folder_of_another_owner_is_refused(tmp_path: Path, give_away: Give) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    give_away(tmp_path / "a")
    with pytest.raises(
        UnsafeFolderError, match=r"the folder .*/a belongs to .*65534.*\nhint: remove it, or .* SOME_DIR"
    ):
        private_folder(tmp_path / "a", "SOME_DIR")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(mode)
    with pytest.raises(UnsafeFolderError, match=rf"others may write to the folder .*/a \(mode {mode:04o}\)"):
        private_folder(tmp_path / "a")
    assert mode_of(tmp_path / "a") == mode


def test_a_link_to_a_folder_is_refused_even_if_both_are_ours(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "a").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeFolderError, match="/a is a link"):
        private_folder(tmp_path / "a")
    (tmp_path / "real" / "b").symlink_to(tmp_path)
    with private_folder(tmp_path / "real") as real, pytest.raises(UnsafeFolderError, match="/real/b is a link"):
        real.below("b")


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(UnsafeFolderError, match="/a is not a folder"):
        private_folder(tmp_path / "a")


@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o1777, True), (0o770, False), (0o755, True)])
def test_a_folder_above_must_be_closed_or_sticky(tmp_path: Path, mode: int, safe: bool) -> None:
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "shared").chmod(mode)
    if safe:
        assert made_private(tmp_path / "shared" / "mine" / "a").is_dir()
        return
    with pytest.raises(UnsafeFolderError, match=rf"what is in .*/shared can be replaced by others \(mode {mode:04o}"):
        private_folder(tmp_path / "shared" / "mine" / "a")
    assert not (tmp_path / "shared" / "mine" / "a").exists()


def test_a_folder_above_must_not_be_a_strangers(tmp_path: Path, give_away: Give) -> None:
    (tmp_path / "theirs" / "mine").mkdir(parents=True)
    give_away(tmp_path / "theirs")
    with pytest.raises(UnsafeFolderError, match=r"what is in .*/theirs can be replaced by .*65534"):
        private_folder(tmp_path / "theirs" / "mine")


def test_links_above_are_followed_if_they_are_ours(tmp_path: Path, give_away: Give) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/../real/deep")
    assert made_private(tmp_path / "link" / "a") == tmp_path / "real" / "deep" / "a"
    give_away(tmp_path / "link")
    with pytest.raises(UnsafeFolderError, match=r"/link can be replaced by .*65534"):
        private_folder(tmp_path / "link" / "a")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(UnsafeFolderError, match="too many links"):
        private_folder(tmp_path / "one" / "a")


@pytest.mark.parametrize("attack", ["another owner", "open to others", "a link", "a second name", "a pipe"])
def test_a_file_that_another_could_have_written_is_not_read(tmp_path: Path, give_away: Give, attack: str) -> None:
    with private_folder(tmp_path / "a") as folder:
        path = folder.path / "file"
        with folder.write("file") as file:
            file.write(b"planted")
        match attack:
            case "another owner":
                give_away(path)
            case "open to others":
                path.chmod(0o666)
            case "a link":
                path.rename(tmp_path / "elsewhere")
                path.symlink_to(tmp_path / "elsewhere")
            case "a second name":
                (tmp_path / "elsewhere").hardlink_to(path)
            case "a pipe":
                path.unlink()
                os.mkfifo(path)
        with pytest.raises(UnsafeFolderError, match="so it is not read"):
            folder.read("file")


def test_writing_replaces_a_link_and_leaves_what_it_names_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with private_folder(tmp_path / "a") as folder:
        (folder.path / "file").symlink_to(tmp_path / "precious")
        with folder.write("file") as file:
            file.write(b"x")
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "a" / "file").is_symlink()


def test_an_open_folder_is_used_even_if_its_name_is_taken_over(tmp_path: Path) -> None:
    with private_folder(tmp_path / "a") as folder:
        (tmp_path / "a").rename(tmp_path / "moved")
        (tmp_path / "a").mkdir()
        with folder.write("file") as file:
            file.write(b"x")
    assert (tmp_path / "moved" / "file").exists()
    assert not (tmp_path / "a" / "file").exists()


def test_scratch_files_are_in_the_users_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = scratch_folder()
    assert (home.name, mode_of(home)) == (f"watersmeet-{os.geteuid()}", 0o700)
    log = kept_file("what happened", "failure-", ".log")
    assert (log.parent, mode_of(log), log.read_text()) == (home, 0o600, "what happened")
    with temporary_folder("state-") as made:
        assert (made.parent, mode_of(made)) == (home, 0o700)
    assert not made.exists()
    home.chmod(0o777)
    for use in (scratch_folder, lambda: kept_file("", "", ""), lambda: temporary_folder("state-").__enter__()):
        with pytest.raises(UnsafeFolderError, match="others may write"):
            use()


def test_where_users_have_no_numbers_folders_work_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, whose temporary folders belong to one user."""
    monkeypatch.setattr(private_folders, "our_id", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert scratch_folder() == tmp_path / "watersmeet"
    with private_folder(tmp_path / "a") as folder, folder.below("b") as inner:
        for content in (b"x", b"y"):
            with inner.write("draft") as file:
                file.write(content)
        inner.replace("draft", "file")
        with inner.read("file") as file:
            assert file.read() == b"y"
        inner.remove("file")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_tmpdir_that_is_passed_over_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.warns(StateWarning, match=f"temporary_folder: .*TMPDIR is '{tmp_path}/nowhere', which is no folder"):
        assert temporary_root() != tmp_path / "nowhere"
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_root() == tmp_path


def test_a_cache_is_where_the_system_has_it_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = named_after_user(Path(tempfile.gettempdir()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    system = platformdirs.user_cache_path("watersmeet", appauthor=False)
    assert tmp_path in system.parents
    assert list(cache_folders()) == [(system, "XDG_CACHE_HOME"), (scratch, "TMPDIR")]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert next(cache_folders()) == (tmp_path / "mine" / "watersmeet", "XDG_CACHE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "beside")  # which says nothing, as it may be anywhere
    assert list(cache_folders()) == [(scratch, "TMPDIR")]
