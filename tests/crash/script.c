/*
 * script.c - what an actor does, as a text: steps between semicolons.
 *
 *	+Xa	lock "a" in mode X. Behind it: k KEEP, l LEASE, i with an id,
 *		L a large entry, T only a test, w wait for it, t wait 1 ms,
 *		s with a ttl of 1 ms, d with a lock delay of 5 ms, D of 10 s,
 *		b with a ttl of 20 ms and a heartbeat each 5 ms, f for another
 *		than this process (a peer), 0 for owner "w0"
 *	+Xa,Sbk	a lock set; w and t are the first's; n for an id of its own
 *	21+Oa	so many times
 *	>Xa	the same without waiting in the call; c cancels it
 *	E e H	listen; hear the next event, or for ever
 *	-0 _	give the first of one's locks back; all of them at once
 *	p0 d0 r0 j0	promote, demote, renew it; so that its end is near
 *	a0	abandon it
 *	k0	is its token the newest?
 *	$11	lock so many keys that fall into the bucket, or shard, of "a"
 *	A	adopt the lock with the id of the dead
 *	h	the same for somebody else
 *	I	inherit all that the dead held for others
 *	J	the same, as each is found
 *	B m	break the lock with the holder's id; with the id of the dead
 *	W	cancel the first waiter
 *	U	give back the holder's first lock
 *	K G	give back what the listener has or waits for; break it
 *	n N	list the name; list all
 *	Z F	reap the dead; doctor --fix
 *	g q	give back what is not used, as if asked; ask others for it
 *	S	statistics and a look at ids
 *	O C	open, close
 *	R u	remove the space; as rm would
 *	t x	a thread that locks, gives back and ends; before it does so, it
 *		has lost the descriptor of the space
 *	D	the descriptor of the space is lost
 *	V	the kernel refuses futex_waitv and unlink from now on
 *	M	so many mutexes that the kernel does not mark the thread's death
 *	z v y	a nap of 30 ms; of 3 ms; one longer than a helper's round
 *
 * Keys: a b c; @ any of them; # is "@/@": it raises the same gate, and
 * overlaps none of them; x falls into the bucket, or shard, of "a".
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"
#include "recovery/reap.h"

/* --- steps --- */

static int lock_neighbours(struct actor *a, unsigned n)
{
    int rc = 0;

    n = n < a->box->n_keys ? n : a->box->n_keys - 1; /* the last is x */
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = enq_lock(a->e,
            ENQ_REQ(.name = NAME, .key = {a->box->keys[i]}, .owner = a->owner,
                .mode = ENQ_MODE_X, .wait_ms = a->patient ? LONG_MS : 0),
            &a->g[a->n++ % GRANTS]);
    return rc;
}

int script_open(struct actor *a, const char *address)
{
    struct enq_open_opts opts = {.size = sizeof(opts),
        .slots = a->box->slots,
        .strict = a->box->strict,
        .owner = a->owner};

    return enq_open(&a->e, address, &opts);
}

static int list(struct actor *a, const char *name)
{
    static struct enq_info info[64];
    size_t total;

    return enq_list(a->e, name, NULL, info, LENGTH(info), &total);
}

static int cancel_first(struct actor *a)
{
    static struct enq_info info[64];
    size_t total;
    int rc = enq_list(a->e, NULL, NULL, info, LENGTH(info), &total);

    for (size_t i = 0; rc == 0 && i < total && i < LENGTH(info); i++)
        if (info[i].waiting && strcmp(info[i].owner, "w0") == 0)
            return enq_unlock(a->e, info[i].handle, 0);
    return rc;
}

static int inherit_all(struct actor *a)
{
    struct enq_info info;
    size_t got;
    int rc;

    do
        rc = enq_inherit(a->e, &info, 1, &got);
    while (rc == ENQ_OK && got > 0);
    return rc;
}

static int inherit_each(struct actor *a)
{
    struct enq_orphan left[ENQ_ORPHANS_LEAST];
    struct enq_info info;
    uint64_t at = 0;
    size_t got;
    int rc, taken = ENQ_OK;

    do {
        rc = enq_orphans(a->e, &at, left, LENGTH(left), &got);
        for (size_t i = 0; taken >= 0 && i < got; i++)
            taken = enq_inherit_lock(a->e, left[i].handle, left[i].heir, &info);
    } while (rc == ENQ_PENDING);
    return taken < 0 ? taken : rc;
}

/* Of the listener, be it held or waiting. */
static int take_from_listener(struct actor *a, bool breaks)
{
    struct enq_info info;
    size_t total = 0;
    int rc = enq_list(a->e, NULL, "l", &info, 1, &total);

    if (rc != 0 || total == 0)
        return rc;
    return breaks ? enq_break(a->e, info.id) : enq_unlock(a->e, info.handle, 0);
}

static int look_at_ids(struct actor *a)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    char id[ENQ_ID_BYTES];
    enq_handle handle;

    enq_stat(a->e, &stats);
    if (enq_id(a->e, a->box->held, id) != ENQ_OK)
        return ENQ_OK;
    return enq_find(a->e, id, &handle);
}

static bool go_blind;

static void *short_thread(void *actor)
{
    struct actor *a = actor;
    struct enq_grant g;

    if (enq_lock(a->e, ENQ_REQ(.name = NAME, .key = {"t"}, .mode = ENQ_MODE_X),
            &g) == 0)
        enq_unlock(a->e, g.handle, g.token);
    if (go_blind)
        close(a->e->map->fd);
    return NULL;
}

static int run_thread(struct actor *a, bool blind)
{
    pthread_t thread;
    int rc;

    go_blind = blind;
    rc = pthread_create(&thread, NULL, short_thread, a);
    return rc != 0 ? -rc : pthread_join(thread, NULL);
}

/* As a kernel of before 5.16, or a sandbox, would. */
static int refuse_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unlink, 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LENGTH(code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0
                                                                     : -errno;
}

/* The kernel walks 2,048 of a thread's robust mutexes, newest first. */
static int hide_death(void)
{
    static pthread_mutex_t mutexes[2100];
    pthread_mutexattr_t attr;
    int rc = 0;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < LENGTH(mutexes) && rc == 0; i++) {
        rc = pthread_mutex_init(&mutexes[i], &attr);
        if (rc == 0)
            rc = pthread_mutex_lock(&mutexes[i]);
    }
    pthread_mutexattr_destroy(&attr);
    return -rc;
}

static int nap(char verb)
{
    long ms = verb == 'v' ? 3 : verb == 'z' ? 30 : 200;

    return nanosleep(&(struct timespec){verb == 'y', ms * 1000000}, NULL);
}

static int mend(struct actor *a, char verb)
{
    static char report[4096];

    if (verb == 'F')
        return enq_doctor(a->e, ENQ_DOCTOR_FIX, report, sizeof(report));
    if (a->e == NULL)
        return ENQ_EGONE;
    reap_dead(&a->e->session, thread_enter(a->e->map));
    return ENQ_OK;
}

static int close_it(struct actor *a)
{
    enq_close(a->e);
    a->e = NULL;
    return ENQ_OK;
}

static int with_lock(struct actor *a, char verb, unsigned i)
{
    const struct enq_grant *g = &a->g[i];

    switch (verb) {
    case '-':
        put_down(a, i);
        return enq_unlock(a->e, g->handle, g->token);
    case 'p':
        return script_promote(a, i);
    case 'a':
        put_down(a, i);
        return enq_abandon(a->e, g->handle, g->token);
    case 'd':
        return enq_demote(a->e, g->handle, g->token);
    case 'j':
        return enq_renew(a->e, g->handle, g->token, 9000); /* of 10 s */
    case 'k':
        return enq_check(a->e, NAME, (const char *[]){"a", NULL}, g->token);
    default:
        return enq_renew(a->e, g->handle, g->token, 0);
    }
}

static int with_space(struct actor *a, char verb)
{
    switch (verb) {
    case 'O':
        return script_open(a,
            a->box->other[0] != '\0' ? a->box->other : a->box->space);
    case 'C':
        return close_it(a);
    case 'R':
        return enq_unlink(a->box->space);
    case 'u':
        return unlink(a->e->path);
    case 'n':
        return list(a, NAME);
    case 'N':
        return list(a, NULL);
    default:
        return mend(a, verb);
    }
}

static int without_blocking(struct actor *a, const char *text)
{
    int rc;

    switch (text[0]) {
    case '>':
        return script_start(a, text + 1);
    case 'c':
        return enq_cancel(a->e, a->ticket);
    case 'E':
        rc = enq_fd(a->e);
        return rc < 0 ? rc : ENQ_OK;
    case 'e':
        return hear_next(a);
    default:
        hear(a);
    }
}

/* On a busy machine the others may need longer to give back room that they do
   not use than the library waits for it: an actor that prepares asks again. */
static int lock(struct actor *a, const char *wish)
{
    int rc = script_lock(a, wish, script_wait_ms(a, wish));

    for (int tries = 0; rc == ENQ_EFULL && a->patient && tries < 300; tries++) {
        nap('v');
        rc = script_lock(a, wish, script_wait_ms(a, wish));
    }
    return rc;
}

static int step(struct actor *a, const char *text)
{
    struct enq_grant g;

    switch (text[0]) {
    case '+':
        return lock(a, text + 1);
    case '>':
    case 'c':
    case 'E':
    case 'e':
    case 'H':
        return without_blocking(a, text);
    case '$':
        return lock_neighbours(a, (unsigned)atoi(text + 1));
    case 'A':
        return enq_adopt(a->e, "id-d", &g);
    case 'h':
        return enq_adopt_for(a->e, "id-d", 77, &g);
    case 'I':
        return inherit_all(a);
    case 'J':
        return inherit_each(a);
    case 'B':
        return enq_break(a->e, "id-h");
    case 'm':
        return enq_break(a->e, "id-d");
    case 'W':
        return cancel_first(a);
    case 'U':
        return enq_unlock(a->e, a->box->held, 0);
    case 'K':
    case 'G':
        return take_from_listener(a, text[0] == 'G');
    case 'S':
        return look_at_ids(a);
    case 't':
    case 'x':
        return run_thread(a, text[0] == 'x');
    case 'D':
        return close(a->e->map->fd);
    case 'V':
        return refuse_calls();
    case 'M':
        return hide_death();
    case 'z':
    case 'v':
    case 'y':
        return nap(text[0]);
    case 'g':
        slab_shed(&a->e->session);
        return ENQ_OK;
    case 'q':
        slab_want(a->e->map);
        return ENQ_OK;
    case '_':
        return script_unlock_all(a);
    case '-':
    case 'p':
    case 'd':
    case 'r':
    case 'j':
    case 'k':
    case 'a':
        return with_lock(a, text[0], (unsigned)(text[1] - '0'));
    default:
        return with_space(a, text[0]);
    }
}

int script_run(struct actor *a, const char *script)
{
    int rc = 0;

    while (*script != '\0') {
        const char *verb = script + strspn(script, "0123456789");
        int times = atoi(script[0] == '-' ? "1" : script);

        do
            rc = step(a, verb);
        while (--times > 0);
        script = strchrnul(verb, ';');
        script += *script == ';';
    }
    return rc;
}
