/*
 * A library with which bash becomes a template: it makes copies of itself that wait, before they have done anything, until the
 * agent says what they are to run.
 *
 * The agent starts bash with this library (LD_PRELOAD, ld.so(8)) and with a socket. bash calls getuid() after it is loaded and
 * has set up its locale, and before it reads its arguments and its environment. There the template serves the agent: for each
 * request it forks a waiting shell, which is a child of the agent (CLONE_PARENT, clone(2)), in a session of its own. The shell
 * waits for one message, with the arguments, the environment, the standard streams and the directory of a command, takes them
 * over, and continues as if it had been started with them. The formats are described in message.rs.
 *
 * It is written in C without a runtime of its own and with unversioned symbols, so that every glibc can load it. It fails by
 * ending the process: the agent then starts the command in the ordinary way, unless it has sent the message already.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The names of the variables with the numbers of the socket and of this library's file, and with the out-of-memory score that
 * the agent is giving this process. */
#define SOCKET_VARIABLE "SANDBOX_AGENT_SHELL_SOCKET="
#define LIBRARY_VARIABLE "SANDBOX_AGENT_SHELL_LIBRARY="
#define SCORE_VARIABLE "SANDBOX_AGENT_SHELL_SCORE="

/* How often this process looks for its score, and the pause between, in nanoseconds: 200 ms together. */
#define SCORE_LOOKS 1000
#define SCORE_PAUSE 200000

/* The names of this process (PR_SET_NAME, prctl(2)): while it waits, so that commands that look for bash do not find it, and as a
 * command. */
#define WAITING_NAME "waiting-shell"
#define NAME "bash"

/* Limits of the messages, as in message.rs. */
#define MAX_MESSAGE_BYTES (96 * 1024)
#define MAX_ENTRIES 2048
#define ARGUMENTS 3
#define STREAMS 3
#define DESCRIPTORS (STREAMS + 1)

/* What a shell sends when it waits, and the template if there is no room for it. */
#define WAITS "1"
#define NO_ROOM "0"

/* Asks for a shell. The descriptor is its socket. */
struct request {
    uint64_t mark;
};

/* The beginning of a command. The descriptors are its streams and its directory. */
struct header {
    uint32_t argument_bytes;
    uint32_t entries;
};

/* Kept for the whole life of the process: bash uses the arguments and the environment where they are. */
static union {
    struct header header;
    char bytes[MAX_MESSAGE_BYTES];
} message;
static char *entries[MAX_ENTRIES + 1];

/* The socket to the agent. */
static int agent = -1;
static char **arguments;
static struct prctl_mm_map map;
/* Where the C library has the number of its thread. */
static int *thread_id;

/* glibc has it, and no other C library. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern char **environ;

static void give_up(void) {
    _exit(1);
}

/* The number at the beginning of a text. The C library's functions for this have other names in newer versions. */
static uint64_t number_at(const char *text) {
    uint64_t number = 0;
    while (*text >= '0' && *text <= '9')
        number = number * 10 + (uint64_t)(*text++ - '0');
    return number;
}

/* The number after `name` at the beginning of `entry`, or -1. */
static int number_after(const char *entry, const char *name) {
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 ? (int)number_at(entry + length) : -1;
}

/* Reads where the kernel has the parts of this process (proc_pid_stat(5), fields 26 to 28 and 45 to 51). */
static void read_map(void) {
    char text[2048];
    int stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = stat < 0 ? -1 : read(stat, text, sizeof text - 1);
    if (length <= 0)
        give_up();
    close(stat);
    text[length] = 0;
    /* The name, which is the second field, is in parentheses. */
    char *next = strrchr(text, ')');
    for (int field = 2; next != NULL && field <= 51; field++) {
        uint64_t value = number_at(next);
        switch (field) {
        case 26: map.start_code = value; break;
        case 27: map.end_code = value; break;
        case 28: map.start_stack = value; break;
        case 45: map.start_data = value; break;
        case 46: map.end_data = value; break;
        case 47: map.start_brk = value; break;
        case 48: map.arg_start = value; break;
        case 49: map.arg_end = value; break;
        case 50: map.env_start = value; break;
        case 51: map.env_end = value; break;
        }
        next = strchr(next, ' ');
        next = next == NULL ? NULL : next + 1;
    }
    map.exe_fd = (uint32_t)-1;
}

/* Returns when this process has a score. The agent cannot change it after this process is not dumpable any more, and the copies
 * inherit it. */
static void await_score(int score) {
    for (int look = 0; look < SCORE_LOOKS; look++) {
        char text[16] = {0};
        int file = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
        if (file < 0 || read(file, text, sizeof text - 1) <= 0)
            give_up();
        close(file);
        if ((int)number_at(text) == score)
            return;
        struct timespec pause = {.tv_nsec = SCORE_PAUSE};
        syscall(SYS_nanosleep, &pause, NULL);
    }
    give_up();
}

/* Tells the kernel where the arguments and the environment are, for /proc/self/cmdline and environ (PR_SET_MM_MAP, prctl(2)). */
static int set_map(void) {
    map.brk = (uint64_t)syscall(SYS_brk, 0);
    return (int)syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

/* Runs before bash. Does nothing in a process that the agent has not started for waiting. */
__attribute__((constructor)) static void prepare(int count, char **argument, char **environment) {
    if (gnu_get_libc_version == NULL)
        return;
    int library = -1, score = -1, kept = 0;
    for (char **entry = environment; *entry != NULL; entry++) {
        int number = number_after(*entry, LIBRARY_VARIABLE);
        library = number < 0 ? library : number;
        number = number_after(*entry, SOCKET_VARIABLE);
        agent = number < 0 ? agent : number;
        number = number_after(*entry, SCORE_VARIABLE);
        score = number < 0 ? score : number;
        /* For the time until the message arrives, in which bash looks for its locale. */
        if (kept < MAX_ENTRIES)
            entries[kept++] = *entry;
    }
    if (agent < 0)
        return;
    if (count != ARGUMENTS)
        give_up();
    syscall(SYS_prctl, PR_SET_NAME, WAITING_NAME, 0, 0, 0);
    arguments = argument;
    environ = entries;
    close(library);
    read_map();
    /* Not every kernel supports these. After the message has arrived, it would be too late for another process. */
    if (set_map() != 0 || syscall(SYS_prctl, PR_GET_TID_ADDRESS, &thread_id, 0, 0, 0) != 0)
        give_up();
    if (score >= 0)
        await_score(score);
    /* From here on, no command can trace this process and its copies, or read their memory. */
    if (syscall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        give_up();
}

/* Receives a message with `count` descriptors. Returns its length. */
static size_t receive(void *buffer, size_t size, int *descriptors, size_t count) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    struct msghdr parts = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length = syscall(SYS_recvmsg, agent, &parts, MSG_CMSG_CLOEXEC);
    /* The agent does not need this process any more. */
    if (length <= 0)
        _exit(0);
    struct cmsghdr *found = CMSG_FIRSTHDR(&parts);
    if (found == NULL || found->cmsg_type != SCM_RIGHTS || found->cmsg_len != CMSG_LEN(count * sizeof(int))
        || parts.msg_flags & MSG_TRUNC)
        give_up();
    memcpy(descriptors, CMSG_DATA(found), count * sizeof(int));
    return (size_t)length;
}

/* Writes a pointer to each of `count` strings. Returns the end of the last one. */
static char *point_to(char **pointers, uint32_t count, char *text, const char *end) {
    for (uint32_t index = 0; index < count; index++) {
        size_t length = strnlen(text, (size_t)(end - text));
        if (text + length == end)
            give_up();
        pointers[index] = text;
        text += length + 1;
    }
    return text;
}

/* Forks a child of the agent, as fork(2) forks a child of this process. Returns 0 in the child. */
static long fork_sibling(void) {
    unsigned long flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__x86_64__)
    return syscall(SYS_clone, flags, NULL, NULL, thread_id, NULL);
#else
    return syscall(SYS_clone, flags, NULL, NULL, NULL, thread_id);
#endif
}

/* Forks shells for the agent. Returns in each of them. */
static void serve(void) {
    for (;;) {
        struct request request;
        int socket;
        if (receive(&request, sizeof request, &socket, 1) != sizeof request)
            give_up();
        long child = fork_sibling();
        if (child == 0) {
            close(agent);
            agent = socket;
            struct rlimit locks;
            /* A C library that kept the template's number would mislead bash. */
            if (getpid() != syscall(SYS_getpid) || setsid() < 0 || getrlimit(RLIMIT_LOCKS, &locks) != 0)
                give_up();
            locks.rlim_cur = request.mark;
            if (setrlimit(RLIMIT_LOCKS, &locks) != 0)
                give_up();
            return;
        }
        if (child < 0) {
            if (write(socket, NO_ROOM, 1) != 1)
                give_up();
        }
        close(socket);
    }
}

/* Waits for the command, and becomes it. */
static void become(void) {
    int descriptors[DESCRIPTORS];
    if (write(agent, WAITS, 1) != 1)
        _exit(0);
    size_t length = receive(message.bytes, sizeof message.bytes, descriptors, DESCRIPTORS);
    char *text = message.bytes + sizeof message.header, *end = message.bytes + length;
    if (length < sizeof message.header || message.header.entries > MAX_ENTRIES
        || message.header.argument_bytes > (size_t)(end - text))
        give_up();
    char *environment = text + message.header.argument_bytes;
    point_to(arguments, ARGUMENTS, text, environment);
    if (point_to(entries, message.header.entries, environment, end) != end)
        give_up();
    entries[message.header.entries] = NULL;

    if (syscall(SYS_fchdir, descriptors[STREAMS]) != 0)
        give_up();
    for (int stream = 0; stream < STREAMS; stream++)
        if (dup2(descriptors[stream], stream) < 0)
            give_up();
    for (int index = 0; index < DESCRIPTORS; index++)
        close(descriptors[index]);
    close(agent);

    map.arg_start = (uint64_t)text;
    map.arg_end = map.env_start = (uint64_t)environment;
    map.env_end = (uint64_t)end;
    syscall(SYS_prctl, PR_SET_NAME, NAME, 0, 0, 0);
    if (set_map() != 0 || syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
        give_up();
}

/* Replaces that of the C library (getuid(2)). */
uid_t getuid(void) {
    if (agent >= 0) {
        serve();
        become();
        agent = -1;
    }
    return (uid_t)syscall(SYS_getuid);
}
