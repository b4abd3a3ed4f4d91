# Changes a tree of files of all kinds at random, or describes it exactly.
#   tree.py <directory> change <seed>
#   tree.py <directory> list
import fcntl
import hashlib
import os
import random
import shutil
import socket
import stat
import sys

# So few that a change and a list take a fraction of a second.
MAX_ENTRIES = 120
CHANGES = 15
MAX_DEPTH = 40
NAMES = [b"plain", b"with space", b"-dash", b"new\nline", b"\xff\xfe", "é日".encode(), b"l" * 200, b"'quote", b".dot"]
TARGETS = [b"plain", b"../..", b"/etc/passwd", b"nowhere/\xff", b"."]


class Tree:
    def __init__(self, root, seed):
        self.root = os.fsencode(root)
        self.random = random.Random(seed)
        os.makedirs(self.root, exist_ok=True)

    def walk(self):
        """All paths below the root, directories before their entries."""
        for folder, folders, files in os.walk(self.root):
            yield from (os.path.join(folder, name) for name in folders + files)

    def pick(self, is_wanted):
        found = sorted(path for path in self.walk() if is_wanted(os.lstat(path).st_mode))
        return self.random.choice(found) if found else None

    def folder(self):
        return self.pick(stat.S_ISDIR) if self.random.random() < 0.8 and self.pick(stat.S_ISDIR) else self.root

    def new(self):
        """A path that may exist already."""
        folder = self.folder()
        if folder[len(self.root) :].count(b"/") > MAX_DEPTH:
            folder = self.root
        return os.path.join(folder, self.random.choice(NAMES) + b"%d" % self.random.randrange(8))

    def content(self):
        size = self.random.choice([0, 1, 100, 4096, 9000])
        return self.random.randbytes(size) if self.random.random() < 0.3 else (b"%d," % size) * (size // 5)

    def write(self):
        with open(self.new(), "wb") as file:
            file.write(self.content())

    def overwrite(self):
        if path := self.pick(stat.S_ISREG):
            with open(path, "r+b") as file:
                file.seek(self.random.randrange(10_000))
                file.write(self.content())

    def sparse(self):
        # A few of them make a snapshot so large that its copies share a base.
        size = self.random.randrange(1 << 23, 3 << 23)
        with open(self.new(), "wb") as file:
            file.seek(self.random.randrange(size + 1))
            file.write(self.random.randbytes(5000))
            file.truncate(size)

    def deep(self):
        os.makedirs(os.path.join(self.new(), *[b"d"] * self.random.randrange(20)), exist_ok=True)

    def directory(self):
        os.mkdir(self.new())

    def symbolic_link(self):
        os.symlink(self.random.choice(TARGETS), self.new())

    def hard_link(self):
        if path := self.pick(stat.S_ISREG):
            os.link(path, self.new())

    def pipe(self):
        os.mkfifo(self.new())

    def socket(self):
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(self.new())

    def mode(self):
        if path := self.pick(lambda mode: not stat.S_ISLNK(mode)):
            # The owner must be able to go through a directory.
            at_least = 0o700 if os.path.isdir(path) else 0
            os.chmod(path, self.random.randrange(0o10000) | at_least)

    def times(self):
        if path := self.pick(lambda mode: True):
            at = self.random.randrange(-(2**31), 2**33) * 10**9 + self.random.randrange(10**9)
            os.utime(path, ns=(at, at), follow_symlinks=False)

    def attribute(self):
        if path := self.pick(lambda mode: stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            os.setxattr(path, b"user.%d" % self.random.randrange(3), self.random.randbytes(20))

    def rename(self):
        if path := self.pick(lambda mode: True):
            os.rename(path, self.new())

    def remove(self):
        if path := self.pick(lambda mode: True):
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def change(self):
        changes = [self.write, self.write, self.overwrite, self.sparse, self.deep, self.directory, self.symbolic_link]
        changes += [self.hard_link, self.pipe, self.socket, self.mode, self.times, self.attribute, self.rename]
        for _ in range(CHANGES):
            is_full = sum(1 for _ in self.walk()) > MAX_ENTRIES
            try:
                self.remove() if is_full else self.random.choice(changes + [self.remove])()
            except OSError:
                # The path exists, has no permission for it, or is too long.
                pass

    def list(self):
        inodes = {}
        for path in sorted([self.root, *self.walk()]):
            found = os.lstat(path)
            kind = stat.filemode(found.st_mode)[0]
            facts = [repr(path), kind, oct(stat.S_IMODE(found.st_mode)), owner(found), found.st_mtime_ns]
            if kind == "l":
                facts.append(repr(os.readlink(path)))
            if kind == "-":
                facts += [found.st_size, "like", inodes.setdefault(found.st_ino, len(inodes))]
                facts += ["sparse" if found.st_blocks * 512 * 2 < found.st_size else "full", digest(path)]
            if kind in "-d":
                facts += [(name, attribute(path, name)) for name in sorted(os.listxattr(path))]
            print(*facts)


def owner(found):
    """The same for each sandbox, whose user ids differ."""
    return "own" if (found.st_uid, found.st_gid) == (os.getuid(), os.getgid()) else (found.st_uid, found.st_gid)


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except PermissionError:
        return "unreadable"


def attribute(path, name):
    try:
        return os.getxattr(path, name).hex()
    except PermissionError:
        return "unreadable"


# One change or list at a time, also if the daemon was killed during a change. The lock leaves nothing in the workspace.
lock = os.open(".", os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
root, act, *seed = sys.argv[1:]
tree = Tree(root, int(seed[0]) if seed else 0)
tree.change() if act == "change" else tree.list()
