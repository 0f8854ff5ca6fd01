/*
 * dying.c - P14: a killed process has its locks for as long as any thread of it
 * can do anything.
 *
 * A thread that writes is not stopped by SIGKILL before the write has ended. So
 * holders write to a file system of this test's own, which keeps them waiting:
 * it is the witness of when the write was done. The next holder of the lock
 * looks whether it was; and to a disk, where it reads what is written after it
 * had the lock.
 */
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "dice.h"
#include "env.h"

/* --- a file system of one file, whose writes take as long as we say --- */

struct witness {
    uint32_t begun, may_end, ended; /* writes */
    uint32_t turn, granted, early;  /* of the waiters: see wait_in_turn() */
    uint32_t stop, ready;
    uint32_t kills; /* of those whose write had begun, and could not end */
};

static struct witness *witness;
/* In a file system of this process, which goes with it. */
static const char mount_point[] = "/mnt/file";
static uint64_t dice;

static void answer(int fd, const struct fuse_in_header *in, int error,
    const void *out, size_t bytes)
{
    char reply[256];
    struct fuse_out_header h = {
        (uint32_t)(sizeof(h) + bytes), error, in->unique};

    memcpy(reply, &h, sizeof(h));
    if (bytes > 0)
        memcpy(reply + sizeof(h), out, bytes);
    if (write(fd, reply, h.len) < 0)
        must(errno == ENOENT); /* the asker is gone */
}

static void let_write(int fd, const struct fuse_in_header *in)
{
    const struct fuse_write_in *w = (const void *)(in + 1);
    struct fuse_write_out out = {.size = w->size};
    uint32_t number = shm_add(&witness->begun, 1);

    while (shm_load_acquire(&witness->may_end) < number)
        env_nap(0.05);
    shm_add(&witness->ended, 1);
    answer(fd, in, 0, &out, sizeof(out));
}

static void serve_one(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
        .minor = FUSE_KERNEL_MINOR_VERSION,
        .max_write = 4096};
    struct fuse_open_out open_out = {.open_flags = FOPEN_DIRECT_IO};
    struct fuse_attr_out attr = {
        .attr = {.ino = 1, .mode = S_IFREG | 0666, .nlink = 1, .size = 4096}};

    switch (in->opcode) {
    case FUSE_INIT:
        answer(fd, in, 0, &init, sizeof(init));
        break;
    case FUSE_GETATTR:
        answer(fd, in, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
        answer(fd, in, 0, &open_out, sizeof(open_out));
        break;
    case FUSE_WRITE:
        let_write(fd, in);
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
        answer(fd, in, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: /* it goes on */
        break;
    default:
        answer(fd, in, -ENOSYS, NULL, 0);
    }
}

static int serve_files(void *arg)
{
    static _Alignas(struct fuse_in_header) char in[1 << 18];
    int fd = *(int *)arg;

    while (read(fd, in, sizeof(in)) > 0 || errno == EINTR || errno == ENOENT)
        serve_one(fd, (const void *)in);
    return 0;
}

static void own_mounts(void)
{
    must(unshare(CLONE_NEWNS) == 0);
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static void begin_files(void)
{
    char options[96];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), file;

    must(fd >= 0);
    witness = env_shared(sizeof(*witness));
    own_mounts();
    must(mount("none", "/mnt", "tmpfs", 0, NULL) == 0);
    file = creat(mount_point, 0600);
    must(file >= 0);
    close(file);
    snprintf(options, sizeof(options),
        "fd=%d,rootmode=100000,user_id=0,group_id=0,allow_other", fd);
    must(mount("enq-env", mount_point, "fuse", MS_NOSUID | MS_NODEV, options) ==
        0);
    env_child(serve_files, &fd);
    close(fd);
}

/* Over /dev/shm, for this process and its children. */
static void begin_overlay(void)
{
    must(mkdir("/mnt/lower", 0755) == 0 && mkdir("/mnt/work", 0755) == 0);
    must(mkdir("/mnt/upper", 0755) == 0 && chmod("/mnt/upper", 01777) == 0);
    must(mount("overlay", "/dev/shm", "overlay", 0,
             "lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work") == 0);
}

static void end_files(void)
{
    umount2(mount_point, MNT_DETACH);
    umount2("/mnt", MNT_DETACH);
}

/* --- holders --- */

struct hang {
    unsigned rounds;
    bool pidns, closes, forks, thread, execs, overlay;
    void (*holder)(void), (*waiter)(void); /* what they do first */
    pid_t number; /* with pidns: its own, which nobody has outside */
    pid_t pid;    /* as it is killed by */
    uint32_t ready;
};

static void *write_it(void *nothing)
{
    int fd = open(mount_point, O_RDWR);

    must(fd >= 0);
    pwrite(fd, "written", 7, 0);
    return nothing;
}

static pid_t number_of_nobody(void)
{
    pid_t pid = 32000; /* of 32,768 at least: the highest are the rarest */

    while (kill(pid, 0) == 0 || errno != ESRCH)
        pid--;
    return pid;
}

/* Its child goes on in its place, with that number. Outside it has another one,
   which /proc tells. */
static pid_t be_numbered(pid_t number)
{
    FILE *f = fopen("/proc/sys/kernel/ns_last_pid", "w");
    char outside[16] = "";
    pid_t pid;

    must(f != NULL && fprintf(f, "%d", (int)number - 1) > 0 && fclose(f) == 0);
    pid = fork();
    if (pid == 0) {
        must(getpid() == number);
        must(readlink("/proc/self", outside, sizeof(outside) - 1) > 0);
        return (pid_t)atoi(outside);
    }
    must(pid == number && waitpid(pid, NULL, 0) == pid);
    _exit(0);
}

/* A child that lives on; it has what a fork copies. */
static void leave_a_child(void)
{
    if (fork() == 0)
        for (;;)
            pause();
}

static void take_and_tell(struct hang *h)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 5000, &g));
    if (h->forks)
        leave_a_child();
    if (h->closes)
        closefrom(3);
    env_reach(&h->ready);
}

static int hold_and_write(void *arg)
{
    struct hang *h = arg;
    pthread_t thread;

    if (h->holder != NULL)
        h->holder();
    if (h->pidns)
        h->pid = be_numbered(h->number);
    take_and_tell(h);
    if (!h->thread && !h->execs)
        write_it(NULL);
    must(pthread_create(&thread, NULL, write_it, NULL) == 0);
    env_await(&witness->stop);
    if (h->execs)
        execl("/bin/sleep", "sleep", "30", NULL);
    for (;;)
        pause();
    return 0;
}

/* --- waiters --- */

static int wait_in_turn(void *arg)
{
    struct hang *h = arg;
    struct enq_grant g;
    struct enq *e;

    if (h->waiter != NULL)
        h->waiter();
    e = env_open();
    env_reach(&witness->ready);
    for (uint32_t turn = 1; turn <= h->rounds; turn++) {
        while (shm_load_acquire(&witness->turn) < turn)
            env_nap(0.05);
        want(ENQ_OK, env_take(e, "a", 20000, &g));
        if (shm_load_acquire(&witness->ended) < turn)
            shm_add(&witness->early, 1);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        shm_store_release(&witness->granted, turn);
    }
    return 0;
}

/* --- rounds --- */

static bool blocker_is_dying(struct enq *e)
{
    struct enq_grant g;

    want(ENQ_BUSY, env_take(e, "a", 0, &g));
    must(g.blocker.pid != 0);
    return g.blocker.dying;
}

/* As soon as the killed thread that is not writing has been let run. */
static void is_said_to_be_dying(struct enq *e)
{
    struct enq_info info;
    size_t n;

    eventually(blocker_is_dying(e));
    must(enq_list(e, NULL, NULL, &info, 1, &n) == ENQ_OK && n >= 1);
    must(info.dying && !info.orphaned && info.pid != 0);
}

static void end_holder(const struct hang *h, pid_t pid)
{
    if (h->execs) {
        shm_store_release(&witness->stop, 1);
        return;
    }
    must(kill(h->pidns ? h->pid : pid, SIGKILL) == 0);
    witness->kills++;
}

static void play_round(struct hang *h, struct enq *e, uint32_t turn)
{
    pid_t pid;

    h->ready = 0;
    h->number = number_of_nobody();
    shm_store(&witness->stop, 0);
    pid = h->pidns ? env_child_in_pidns(hold_and_write, h)
                   : env_child(hold_and_write, h);
    env_await(&h->ready);
    eventually(shm_load_acquire(&witness->begun) >= turn);
    shm_store_release(&witness->turn, turn);
    eventually(env_stat(e).waiting == 1);
    end_holder(h, pid);
    env_nap((double)dice_below(&dice, 8));
    if (turn % 8 == 1 && h->waiter == NULL && !h->execs)
        is_said_to_be_dying(e);
    must(shm_load_acquire(&witness->granted) < turn);
    shm_store_release(&witness->may_end, turn);
    eventually(shm_load_acquire(&witness->granted) == turn);
    kill(pid, SIGKILL);
    env_status(pid);
}

static void play(struct hang h)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .mode = 0660};
    struct hang *shared;
    struct enq *e;
    pid_t waiter;

    dice = dice_of(14);
    begin_files();
    if (h.overlay)
        begin_overlay();
    shared = env_shared(sizeof(*shared));
    *shared = h;
    want(ENQ_OK, enq_open(&e, env_space(), &opts));
    waiter = env_child(wait_in_turn, shared);
    env_await(&witness->ready);
    for (uint32_t turn = 1; turn <= h.rounds; turn++)
        play_round(shared, e, turn);
    env_join(waiter);
    env_say("%u rounds, %u killed while a write hung, %u followed too early",
        h.rounds, witness->kills, witness->early);
    must(witness->early == 0);
    shm_add(env_dying_kills, witness->kills);
    eventually(env_stat(e).sessions == 1);
    env_healthy(e);
    enq_close(e);
    if (h.overlay)
        must(umount2("/dev/shm", MNT_DETACH) == 0);
    end_files();
}

static void P14_a_killed_ones_lock_is_given_on_when_its_hanging_write_ended(
    void)
{
    play((struct hang){.rounds = 140});
}

static void P14_nor_before_that_of_a_thread_the_library_does_not_know(void)
{
    play((struct hang){.rounds = 20, .thread = true});
}

static void P14_nor_of_one_that_closed_all_and_left_a_child(void)
{
    play((struct hang){.rounds = 20, .closes = true, .forks = true});
}

static void P14_nor_of_one_in_another_pid_namespace(void)
{
    play((struct hang){.rounds = 20, .pidns = true});
}

static void P14_nor_of_one_that_execs(void)
{
    play((struct hang){.rounds = 10, .execs = true});
}

/* No lock on the file tells of an end there: the kernel maps another one. */
static void P14_nor_on_overlayfs(void)
{
    play((struct hang){.rounds = 20, .overlay = true});
    play((struct hang){.rounds = 10, .overlay = true, .thread = true});
}

/* --- where /proc does not show it --- */

/* Nothing is left of it but /proc/sys, by which the boot is known. */
static void lose_proc(void)
{
    char sys[] = "/mnt/sys-XXXXXX";

    own_mounts();
    must(mkdtemp(sys) != NULL);
    must(mount("/proc/sys", sys, NULL, MS_BIND, NULL) == 0);
    must(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
    must(mkdir("/proc/sys", 0755) == 0);
    must(mount(sys, "/proc/sys", NULL, MS_BIND, NULL) == 0);
    must(umount2(sys, MNT_DETACH) == 0);
    must(rmdir(sys) == 0);
}

static void P14_nor_where_there_is_no_proc(void)
{
    play((struct hang){.rounds = 20, .waiter = lose_proc});
    play((struct hang){.rounds = 10,
        .waiter = lose_proc,
        .holder = lose_proc,
        .closes = true,
        .forks = true});
}

/* Of the space's group, and of no user that anybody else is. */
static void be_user_a(void)
{
    must(setresuid(65533, 65533, 65533) == 0);
}

static void be_user_b_who_sees_himself(void)
{
    own_mounts();
    must(mount("proc", "/proc", "proc", 0, "hidepid=2,gid=65534") == 0);
    must(setresuid(65534, 65534, 65534) == 0);
}

static void P14_nor_where_proc_hides_it(void)
{
    play((struct hang){.rounds = 20,
        .holder = be_user_a,
        .waiter = be_user_b_who_sees_himself});
}

/* Neither sign would come: /proc does not show it, and on overlayfs its lock on
   the file goes with a descriptor. */
static void P14_who_could_not_be_seen_to_end_is_refused(void)
{
    struct enq *e = NULL;

    begin_files();
    begin_overlay();
    enq_close(env_open());
    lose_proc();
    must(enq_open(&e, env_space(), NULL) == -EOPNOTSUPP && e == NULL);
    must(strstr(enq_why(), "overlayfs") != NULL);
    must(strstr(enq_why(), env_space_path()) != NULL);
}

/* --- what outlives it must not keep its locks --- */

static int hold_on(void *arg)
{
    struct hang *h = arg;

    if (h->holder != NULL)
        h->holder();
    take_and_tell(h);
    for (;;)
        pause();
    return 0;
}

/* Without any help of /proc: the child has all descriptors, and no lock. */
static void P14_a_child_that_outlives_a_killed_one_keeps_none_of_its_locks(void)
{
    struct hang *h = env_shared(sizeof(*h));
    struct enq_grant g;
    struct enq *e;

    lose_proc();
    e = env_open();
    h->forks = true;
    for (unsigned i = 0; i < 20; i++) {
        pid_t pid;

        h->ready = 0;
        h->closes = i % 2 == 0;
        pid = env_child(hold_on, h);
        env_await(&h->ready);
        want(ENQ_BUSY, env_take(e, "a", 0, &g));
        must(!g.blocker.dying);
        env_kill(pid);
        want(ENQ_OK, env_take(e, "a", 5000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    env_healthy(e);
}

/* --- a disk --- */

#define DISK_BYTES ((size_t)32 << 20)
#define DISK_KILLS 40

struct disk {
    uint32_t ready, granted;
    pid_t holder;
    int fd;
    bool writes;
};

static int write_to_disk(void *arg)
{
    struct disk *d = arg;
    struct enq *e = env_open();
    struct enq_grant g;
    char *bytes = mmap(NULL, DISK_BYTES, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    must(bytes != MAP_FAILED);
    want(ENQ_OK, env_take(e, "a", 5000, &g));
    env_reach(&d->ready);
    for (;;)
        must(pwrite(d->fd, bytes, DISK_BYTES, 0) > 0);
    return 0;
}

/* A thread that waits for a disk, and has not begun to exit. (To read what it
   writes is no witness: that waits for the write.) */
static bool is_writing(pid_t pid)
{
    char path[64], state = 'X';
    unsigned flags = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    must(f != NULL);
    must(fscanf(f, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %u", &state, &flags) ==
        2);
    fclose(f);
    return state == 'D' && (flags & 4) == 0;
}

static int look_when_granted(void *arg)
{
    struct disk *d = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 20000, &g));
    d->writes = is_writing(d->holder);
    env_reach(&d->granted);
    return 0;
}

static void P14_who_writes_to_a_disk_has_its_lock_until_that_is_done(void)
{
    struct disk *d = env_shared(sizeof(*d));
    struct enq *e = env_open();
    unsigned in_the_middle = 0, late = 0;

    dice = dice_of(15);
    d->fd = open(".", O_TMPFILE | O_RDWR | O_DIRECT, 0600);
    must(d->fd >= 0);
    must(posix_fallocate(d->fd, 0, DISK_BYTES) == 0);
    for (unsigned i = 0; i < DISK_KILLS; i++) {
        pid_t waiter;

        d->ready = d->granted = 0;
        d->holder = env_child(write_to_disk, d);
        env_await(&d->ready);
        waiter = env_child(look_when_granted, d);
        eventually(env_stat(e).waiting == 1);
        env_nap((double)dice_below(&dice, 5));
        in_the_middle += is_writing(d->holder);
        kill(d->holder, SIGKILL);
        env_await(&d->granted);
        env_join(waiter);
        env_status(d->holder);
        late += d->writes;
    }
    env_say("%u killed, %u in the middle of a write to a disk; %u wrote on",
        DISK_KILLS, in_the_middle, late);
    must(late == 0);
    shm_add(env_dying_kills, in_the_middle);
}

const struct env_case dying_cases[] = {
    CASE(P14_a_killed_ones_lock_is_given_on_when_its_hanging_write_ended),
    CASE(P14_nor_before_that_of_a_thread_the_library_does_not_know),
    CASE(P14_nor_of_one_that_closed_all_and_left_a_child),
    CASE(P14_nor_of_one_in_another_pid_namespace),
    CASE(P14_nor_of_one_that_execs),
    CASE(P14_nor_on_overlayfs),
    CASE(P14_nor_where_there_is_no_proc),
    CASE(P14_nor_where_proc_hides_it),
    CASE(P14_who_could_not_be_seen_to_end_is_refused),
    CASE(P14_a_child_that_outlives_a_killed_one_keeps_none_of_its_locks),
    CASE(P14_who_writes_to_a_disk_has_its_lock_until_that_is_done),
    {0},
};
