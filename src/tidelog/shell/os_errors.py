"""An operating system's "no", said so that the reader knows what to do about it."""

from __future__ import annotations

import errno
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.storage.filesystem import FileMissing

_ADVICE: Final = {
    errno.ENOSPC: "the disk is full: free space or lower the topics' retention",
    errno.EDQUOT: "the disk quota is used up: free space or raise the quota",
    errno.EMFILE: "too many open files: raise the process's limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files: raise fs.file-max",
    errno.EACCES: "the node's user lacks the right to do this",
    errno.EPERM: "the node's user lacks the right to do this",
    errno.EROFS: "the file system is mounted read-only",
    errno.EIO: "the disk failed: check it before this directory is used again",
}


def disk_error(action: str, path: str, error: OSError) -> DiskError:
    """The same failure as a `DiskError` that names the path, the code and a way out."""
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    advice = _ADVICE.get(code)
    message = f"cannot {action} {path}: {error.strerror or error} ({name})"
    kind = FileMissing if code == errno.ENOENT else DiskError
    return kind(f"{message}; {advice}" if advice else message)
