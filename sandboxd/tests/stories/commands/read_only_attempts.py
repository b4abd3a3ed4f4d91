# Tries every way to write to the workspace that needs system calls, and prints those that worked.
import ctypes, errno, mmap, os, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def opened(path, flags):
    os.close(os.open(path, flags, 0o644))
def mapped(flags):
    fd = os.open('file', flags)
    with mmap.mmap(fd, 1, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_SHARED) as m:
        m[0] = 0
def through(fd_path):
    fd = os.open('file', os.O_RDONLY)
    opened(fd_path % fd, os.O_WRONLY)
def through_path():
    fd = os.open('file', os.O_PATH)
    opened('/proc/self/fd/%d' % fd, os.O_RDWR)
def bound():
    s = socket.socket(socket.AF_UNIX); s.bind('socket')
def handed_over():
    # A child cannot have more access than its parent, and cannot pass more back.
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        try:
            socket.send_fds(a, [b'x'], [os.open('file', os.O_WRONLY)])
        except OSError:
            pass
        os._exit(0)
    os.wait(); a.close()
    _, fds, *_ = socket.recv_fds(b, 1, 1)
    if not fds: raise OSError(errno.EACCES, 'none')
def ftruncate_read_only():
    os.ftruncate(os.open('file', os.O_RDONLY), 0)
def linked():
    fd = os.open(os.environ['TMPDIR'], os.O_TMPFILE | os.O_RDWR, 0o644)
    call('linkat', -100, b'/proc/self/fd/%d' % fd, -100, b'linked', 0x400)
def in_thread():
    failed = []
    def inside():
        try: opened('file', os.O_WRONLY)
        except OSError as error: failed.append(error)
    thread = threading.Thread(target=inside); thread.start(); thread.join()
    if failed: raise failed[0]
attempts = {
    'O_WRONLY': lambda: opened('file', os.O_WRONLY),
    'O_RDWR': lambda: opened('file', os.O_RDWR),
    'O_APPEND': lambda: opened('file', os.O_WRONLY | os.O_APPEND),
    'O_CREAT': lambda: opened('created', os.O_RDONLY | os.O_CREAT),
    'O_TMPFILE': lambda: opened('.', os.O_TMPFILE | os.O_RDWR),
    'ftruncate of what is read': ftruncate_read_only,
    'mmap rw': lambda: mapped(os.O_RDWR),
    'mmap of what is read': lambda: mapped(os.O_RDONLY),
    'fd': lambda: through('/proc/self/fd/%d'),
    'dev fd': lambda: through('/dev/fd/%d'),
    'O_PATH': through_path,
    'socket': bound,
    'passed descriptor': handed_over,
    'linkat of a file without a name': linked,
    'thread': in_thread,
    'mknod': lambda: os.mknod('node'),
    'symlink': lambda: os.symlink('a', 'soft'),
    'mem of the agent': lambda: opened('/proc/1/mem', os.O_WRONLY),
    'rename': lambda: os.rename('full', 'renamed'),
    'RENAME_EXCHANGE': lambda: call('renameat2', -100, b'file', -100, b'other', 2),
    'replace': lambda: os.replace('other', 'file'),
    'truncate': lambda: os.truncate('file', 0),
    'O_TRUNC': lambda: opened('file', os.O_RDONLY | os.O_TRUNC),
    'RENAME_NOREPLACE': lambda: call('renameat2', -100, b'file', -100, b'moved', 1),
}
worked = []
for name, attempt in attempts.items():
    try:
        attempt()
        worked.append(name)
    except OSError:
        pass
print('\n'.join(worked) or 'done')
sys.exit(len(worked))
