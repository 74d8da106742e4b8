"""`read.files`: the files of a folder, a list or a pattern, and their labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar, NoReturn

from pipeplug.errors import ArgumentError, SourceError
from pipeplug.source import Source
from pipeplug.spec import TensorSpec

# Without O_NONBLOCK a named pipe among the files would wait for ever for somebody who writes.
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY", "O_NONBLOCK"))

Found = tuple[tuple[str, ...], tuple[int, ...]]


class Files(Source):
    """Reads files whole: their bytes, and a label.

    A folder with sub-folders is a class a sub-folder: labels count them in alphabetical order, and files are found at
    any depth in them; files beside them are an error. A folder of files alone, a list and a pattern give one label, or
    those of `labels`.

    Outputs:
        encoded: the file's content, `bytes`.
        label: int64 scalar.

    Args:
        root: a folder, a pattern such as `"data/**/*.jpg"`, or a list of paths.
        labels: a label a file, in the order of a list of paths.
        extensions: endings of the files to take, in any case, such as `(".jpg", ".png")`; empty means all. Hidden
            files and folders, whose names begin with a dot, are left out either way.
        shuffle: whether each epoch has an order of its own.
        shard: this rank and the number of ranks, which share one order; each takes its part.
        sampler: a function that is called with an epoch's number and gives its indices in order, instead of `shuffle`.

    Raises:
        SourceError: there is nothing at `root`, no file in it, or a folder that cannot be read.
    """

    located_by: ClassVar[tuple[str, ...]] = ("root",)

    root: str | Path | tuple[str | Path, ...]
    labels: tuple[int, ...] | None = None
    extensions: tuple[str, ...] = ()

    def check(self) -> None:
        super().check()
        if self.extensions and isinstance(self.root, tuple):
            raise ArgumentError(
                "extensions choose from a folder or a pattern; a list of paths says itself what to take"
            )
        if self.labels is None:
            return
        if not isinstance(self.root, tuple):
            raise ArgumentError("labels go with a list of paths; a folder's labels are its sub-folders")
        if len(self.labels) != len(self.root):
            raise ArgumentError(f"{len(self.labels)} labels for {len(self.root)} paths; give one a path")

    def infer(self) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec.object(), TensorSpec((), "int64")

    def reader(self) -> FilesReader:
        paths, labels = self._find()
        if not paths:
            wanted = f" that ends in {', '.join(self.extensions)}" if self.extensions else ""
            raise SourceError(f"no file{wanted} in {self.root}; read.files needs at least one")
        return FilesReader(paths, labels)

    def _find(self) -> Found:
        if isinstance(self.root, tuple):
            return tuple(os.fspath(path) for path in self.root), self.labels or (0,) * len(self.root)
        root = os.path.expanduser(os.fspath(self.root))
        if os.path.isdir(root):
            return self._find_in_folder(root)
        if any(letter in root for letter in "*?["):
            paths = tuple(path for path in _matching(root) if self._wanted(os.path.basename(path)))
            return paths, (0,) * len(paths)
        if os.path.exists(root):
            raise SourceError(f"{root} is a file; read.files takes a folder, a pattern, or a list: [{root!r}]")
        raise SourceError(f"there is no folder {root} (in {os.getcwd()})")

    def _find_in_folder(self, root: str) -> Found:
        classes = _classes(root)
        found = [(path, label) for label, name in enumerate(classes) for path in self._walk(os.path.join(root, name))]
        if not found:
            found = [(path, 0) for path in self._walk(root)]
        elif loose := [entry.name for entry in os.scandir(root) if entry.is_file() and self._wanted(entry.name)]:
            raise SourceError(
                f"{root} has files beside its class folders, {len(loose)} in all, {min(loose)} among them; move them "
                "into a class folder, name the endings to take with extensions=, or give a pattern or a list of paths"
            )
        return tuple(path for path, _ in found), tuple(label for _, label in found)

    def _walk(self, folder: str) -> list[str]:
        found = []
        for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
            folders[:] = [name for name in folders if not name.startswith(".") and not _leads_back(parent, name)]
            found += [os.path.join(parent, name) for name in names if self._wanted(name)]
        return sorted(found)

    def _wanted(self, name: str) -> bool:
        endings = tuple(ending.lower() for ending in self.extensions)
        return not name.startswith(".") and (not endings or name.lower().endswith(endings))


def _classes(root: str) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        _refuse(error)


def _leads_back(parent: str, name: str) -> bool:
    """Whether a folder is a link to one that it is in, whose files are found without it."""
    path = os.path.join(parent, name)
    return os.path.islink(path) and Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(path))


def _refuse(error: OSError) -> NoReturn:
    # Files of a folder that cannot be read would be missing from every epoch without a word.
    raise SourceError(f"cannot read the folder {error.filename}: {error.strerror}") from error


def _matching(pattern: str) -> Sequence[str]:
    from glob import glob

    return sorted(path for path in glob(pattern, recursive=True) if os.path.isfile(path))


@dataclass(frozen=True)
class FilesReader:
    """The files that were found; item i is the content and the label of file i."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        return read_file(self.paths[index]), self.labels[index]

    def origin(self, index: int) -> str:
        return self.paths[index]

    def content(self) -> str:
        """A digest of labels and names, from the folder on that all files are in."""
        common = os.path.commonprefix([min(self.paths), max(self.paths)])  # noqa: RUF071 - ends at a separator next
        start = common.rfind(os.sep) + 1
        names = "\0".join(path[start:] for path in self.paths)
        return blake2b(f"{names}\0{self.labels}".encode(errors="surrogateescape"), digest_size=16).hexdigest()


def read_file(path: str) -> bytes:
    """The content of a file, by the fewest calls into the system."""
    descriptor = os.open(path, _READ)
    try:
        size = os.fstat(descriptor).st_size
        content = os.read(descriptor, size)
        if len(content) == size > 0:  # what says 0 may yet have content, such as a file of /proc
            return content
        parts = [content]
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
