import os
from pathlib import Path
from typing import Any

import pytest

from pipeplug import ArgumentError, SampleFailed, SourceError, TensorSpec, ops, pipeline
from pipeplug.sources.files import Files, FilesReader, read_file


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Folders and files whose content is their own path."""
    names = ["dog/2.jpg", "dog/1.JPG", "cat/deep/er/3.png", "cat/0.png", "zebra/notes.txt", "Ünïcode 猫/ä.jpg"]
    hidden = [".git/config", "cat/.DS_Store", "cat/.checkpoints/0.png", ".top.jpg"]
    for name in [*names, *hidden]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return tmp_path


def found(root: Path, **arguments: Any) -> list[tuple[str, int]]:
    reader = Files(**{"root": root, **arguments}).reader()
    read = [reader[index] for index in range(len(reader))]
    assert [reader.origin(index) for index in range(len(reader))] == [str(root / text.decode()) for text, _ in read]
    return [(text.decode(), label) for text, label in read]


def refused(**arguments: Any) -> str:
    with pytest.raises(SourceError) as caught:
        Files(**arguments).reader()
    return str(caught.value)


class TestFolders:
    def test_a_folder_is_a_class_in_alphabetical_order(self, tree: Path):
        assert found(tree) == [
            ("cat/0.png", 0),
            ("cat/deep/er/3.png", 0),
            ("dog/1.JPG", 1),
            ("dog/2.jpg", 1),
            ("zebra/notes.txt", 2),
            ("Ünïcode 猫/ä.jpg", 3),
        ]

    def test_files_beside_class_folders_are_not_left_out_silently(self, tree: Path):
        (tree / "top.jpg").touch()
        (tree / "other.jpg").touch()
        message = refused(root=tree)
        assert "has files beside its class folders, 2 in all, other.jpg among them" in message
        assert "extensions=" in message
        assert len(found(tree, extensions=(".png", ".txt"))) == 3

    def test_empty_folders_count_as_classes_unless_all_are(self, tree: Path):
        (tree / "bird").mkdir()
        assert [label for _, label in found(tree)] == [1, 1, 2, 2, 3, 4]
        (tree / "dog" / "empty").mkdir()
        assert [Path(path).name for path in Files(root=tree / "dog").reader().paths] == ["1.JPG", "2.jpg"]

    def test_extensions_choose_in_any_case(self, tree: Path):
        wanted = [("dog/1.JPG", 1), ("dog/2.jpg", 1), ("Ünïcode 猫/ä.jpg", 3)]
        assert found(tree, extensions=[".jpg"]) == wanted
        assert found(tree, extensions=(".JPG", ".gif")) == wanted

    def test_a_folder_of_files_alone_has_one_label(self, tree: Path):
        reader = Files(root=tree / "dog").reader()
        assert reader.paths == (str(tree / "dog/1.JPG"), str(tree / "dog/2.jpg"))
        assert reader.labels == (0, 0)

    def test_the_root_may_be_text_and_name_the_home_folder(self, tree: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOME", str(tree))
        assert Files(root=str(tree / "dog")).reader() == Files(root="~/dog").reader()

    def test_links_are_followed(self, tree: Path, tmp_path_factory: pytest.TempPathFactory):
        root = tmp_path_factory.mktemp("links")
        (root / "pets").symlink_to(tree / "dog", target_is_directory=True)
        assert [Path(path).name for path in Files(root=root).reader().paths] == ["1.JPG", "2.jpg"]

    @pytest.mark.parametrize("target", [".", "..", "deep"])
    def test_links_that_lead_back_are_not(self, tree: Path, target: str):
        (tree / "dog" / "deep").mkdir()
        (tree / "dog" / "deep" / "loop").symlink_to(Path("..") / target, target_is_directory=True)
        assert [Path(path).name for path in Files(root=tree).reader().paths][2:4] == ["1.JPG", "2.jpg"]
        assert len(Files(root=tree).reader()) == 6

    def test_what_it_promises(self, tree: Path):
        assert Files(root=tree).infer() == (TensorSpec.object(), TensorSpec((), "int64"))


class TestPatterns:
    def test_matches_come_in_order_with_one_label(self, tree: Path):
        reader = Files(root=f"{tree}/**/*.jpg").reader()
        names = [Path(path).relative_to(tree).as_posix() for path in reader.paths]
        assert names == sorted(names) == ["dog/2.jpg", "Ünïcode 猫/ä.jpg"]
        assert reader.labels == (0, 0)

    def test_extensions_choose_among_matches(self, tree: Path):
        assert Files(root=f"{tree}/cat/*", extensions=(".png",)).reader().paths == (str(tree / "cat/0.png"),)

    def test_a_folder_may_look_like_one(self, tmp_path: Path):
        (tmp_path / "a[1]").mkdir()
        (tmp_path / "a[1]" / "x").write_bytes(b"x")
        assert len(Files(root=tmp_path / "a[1]").reader()) == 1


class TestLists:
    def test_paths_and_labels(self, tree: Path):
        paths = [tree / "dog/2.jpg", str(tree / "cat/0.png")]
        reader = Files(root=paths, labels=[7, 3]).reader()  # type: ignore[arg-type]
        assert [reader[index] for index in range(2)] == [(b"dog/2.jpg", 7), (b"cat/0.png", 3)]

    def test_without_labels_they_have_one(self, tree: Path):
        assert Files(root=(tree / "dog/2.jpg",)).reader().labels == (0,)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"root": ("a", "b"), "labels": (1,)}, "1 labels for 2 paths; give one a path"),
            ({"root": "a", "labels": (1,)}, "labels go with a list of paths; a folder's labels are its sub-folders"),
            (
                {"root": ("a",), "extensions": (".jpg",)},
                "extensions choose from a folder or a pattern; a list of paths says itself what to take",
            ),
            ({"root": "a", "extensions": ".jpg"}, "Files(extensions=…) takes tuple[str, ...], got '.jpg'"),
            ({"root": 3}, "Files(root=…) takes str | Path | tuple[str | Path, ...], got 3"),
        ],
    )
    def test_arguments_that_do_not_fit(self, arguments: dict[str, Any], message: str):
        with pytest.raises(ArgumentError) as caught:
            Files(**arguments)
        assert str(caught.value) == message


class TestNothingToRead:
    def test_no_such_folder(self, tmp_path: Path):
        assert refused(root=tmp_path / "nope") == f"there is no folder {tmp_path / 'nope'} (in {os.getcwd()})"

    def test_an_empty_folder(self, tmp_path: Path):
        assert refused(root=tmp_path) == f"no file in {tmp_path}; read.files needs at least one"

    def test_no_file_of_these_extensions(self, tree: Path):
        message = refused(root=tree, extensions=(".gif", ".bmp"))
        assert message == f"no file that ends in .gif, .bmp in {tree}; read.files needs at least one"

    def test_a_pattern_without_match(self, tmp_path: Path):
        assert refused(root=f"{tmp_path}/*.jpg") == f"no file in {tmp_path}/*.jpg; read.files needs at least one"

    def test_an_empty_list(self):
        assert refused(root=()) == "no file in (); read.files needs at least one"

    def test_a_file_instead_of_a_folder(self, tree: Path):
        path = str(tree / "dog/2.jpg")
        assert refused(root=path) == f"{path} is a file; read.files takes a folder, a pattern, or a list: [{path!r}]"

    @pytest.mark.parametrize("folder", ["", "dog"])
    def test_a_folder_that_cannot_be_read(self, tree: Path, folder: str, monkeypatch: pytest.MonkeyPatch):
        scandir, closed = os.scandir, str(tree / folder)

        def scan(path):
            if str(path).rstrip("/") == closed:
                raise PermissionError(13, "Permission denied", closed)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", scan)
        assert refused(root=tree) == f"cannot read the folder {closed}: Permission denied"


class TestReading:
    @pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1])
    def test_files_are_read_whole(self, tmp_path: Path, size: int):
        content = bytes(range(256)) * (size // 256 + 1)
        (tmp_path / "file").write_bytes(content[:size])
        assert read_file(str(tmp_path / "file")) == content[:size]

    def test_short_reads_are_gone_on_with(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "file").write_bytes(b"0123456789")
        read = os.read
        monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 3)))
        assert read_file(str(tmp_path / "file")) == b"0123456789"

    @pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux has such files")
    def test_a_file_that_says_it_is_empty_is_read_all_the_same(self):
        assert read_file("/proc/self/status").startswith(b"Name:")

    def test_a_pipe_that_nobody_writes_to_does_not_block(self, tmp_path: Path):
        os.mkfifo(tmp_path / "pipe")
        assert read_file(str(tmp_path / "pipe")) == b""

    def test_descriptors_are_closed(self, tmp_path: Path):
        before = len(os.listdir("/dev/fd"))
        with pytest.raises(IsADirectoryError):
            read_file(str(tmp_path))
        assert len(os.listdir("/dev/fd")) == before

    def test_a_file_that_vanishes_is_a_failed_sample_with_its_path(self, tree: Path):
        @pipeline(batch_size=8, threads=1, on_error="skip")
        def train():
            encoded, label = ops.read.files(tree)
            return {"encoded": encoded, "label": label}

        made = train()
        (tree / "dog/2.jpg").unlink()
        with made as batches:
            (batch,) = batches
        assert batch["label"].numpy().tolist() == [0, 0, 1, 2, 3]
        (failure,) = batch.failures
        assert (failure.origin, failure.operator, failure.index) == (str(tree / "dog/2.jpg"), "read.files", 3)
        assert isinstance(failure.cause, FileNotFoundError)
        with pytest.raises(SampleFailed, match=r"read\.files failed on .*dog/2\.jpg \(position 3, index 3\): FileNot"):
            made.samples([3])


def test_readers_are_values():
    assert FilesReader(("a",), (0,)) == FilesReader(("a",), (0,))


def test_content_is_that_of_names_and_labels_wherever_they_are(tmp_path: Path):
    def content(folder: str, *names: str, labels: tuple[int, ...] | None = None) -> str:
        paths = tuple(os.path.join(folder, name) for name in names)
        return FilesReader(paths, labels or (0,) * len(paths)).content()

    assert content("a", "x.jpg", "y.jpg") == content("/b/c", "x.jpg", "y.jpg") == content("", "x.jpg", "y.jpg")
    assert content("a", "x.jpg") == content("b", "x.jpg")
    assert content("a", "k/x.jpg", "l/y.jpg") == content("b", "k/x.jpg", "l/y.jpg")
    different = [
        content("a", "x.jpg", "y.jpg"),
        content("a", "y.jpg", "x.jpg"),
        content("a", "x.jpg", "z.jpg"),
        content("a", "x.jpg", "y.jpg", labels=(0, 1)),
        content("a", "k/x.jpg", "y.jpg"),
    ]
    assert len(set(different)) == len(different)
