/*
 * load.c - libenq.so loaded and unloaded at run time, and beside a copy of
 * the library that is linked into the program.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "env.h"

/* One copy of the library; this program has another, linked in. */
struct copy {
    void *handle;
    int (*open)(struct enq **, const char *, const struct enq_open_opts *);
    void (*close)(struct enq *);
    int (*lock)(struct enq *, const char *, const char *, const char *, int64_t,
        int64_t, struct enq_grant *);
    int (*unlock)(struct enq *, enq_handle, uint64_t);
    int (*valid)(struct enq *, enq_handle);
    const char *(*why)(void);
};

static const char *library(void)
{
    static char path[300];
    const char *build = getenv("BUILD");

    snprintf(path, sizeof(path), "%s%s/release/libenq.so",
        build != NULL && build[0] == '/' ? "" : "./",
        build == NULL ? "build" : build);
    return path;
}

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);

    must(found != NULL);
    return found;
}

static struct copy load(const char *path)
{
    struct copy c = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

    if (c.handle == NULL)
        env_fail(__FILE__, __LINE__, "%s", dlerror());
    *(void **)&c.open = symbol(c.handle, "enq_open");
    *(void **)&c.close = symbol(c.handle, "enq_close");
    *(void **)&c.lock = symbol(c.handle, "enq_lock_spec");
    *(void **)&c.unlock = symbol(c.handle, "enq_unlock");
    *(void **)&c.valid = symbol(c.handle, "enq_valid");
    *(void **)&c.why = symbol(c.handle, "enq_why");
    return c;
}

static struct enq *open_with(const struct copy *c)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4000};
    struct enq *e = NULL;
    int rc = c->open(&e, env_space(), &opts);

    if (rc != ENQ_OK)
        env_fail(__FILE__, __LINE__, "open: %s", c->why());
    return e;
}

static int take_with(const struct copy *c, struct enq *e, const char *spec,
    int64_t wait_ms, struct enq_grant *g)
{
    return c->lock(e, spec, "X", "loaded", wait_ms, ENQ_FOREVER, g);
}

/* --- one copy, loaded again and again --- */

static void P11_the_library_is_loaded_and_unloaded_in_a_loop(void)
{
    struct enq_grant g;
    struct enq *me;

    for (int i = 0; i < 60; i++) {
        struct copy c = load(library());
        struct enq *e = open_with(&c);

        want(ENQ_OK, take_with(&c, e, "env/a", 0, &g));
        want(ENQ_OK, c.unlock(e, g.handle, g.token));
        c.close(e);
        must(dlclose(c.handle) == 0);
    }
    me = env_open();
    eventually(env_stat(me).sessions == 1);
    env_healthy(me);
}

static void *use_and_return(void *arg)
{
    struct copy *c = arg;
    struct enq *e = open_with(c);
    struct enq_grant g;

    want(ENQ_OK, take_with(c, e, "env/thread", 5000, &g));
    c->close(e);
    return NULL;
}

/* The end of a thread calls back into the library. */
static void P11_threads_that_used_it_may_end_after_it_was_unloaded(void)
{
    for (int i = 0; i < 20; i++) {
        struct copy c = load(library());
        pthread_t threads[3];

        for (size_t t = 0; t < LENGTH(threads); t++)
            must(pthread_create(&threads[t], NULL, use_and_return, &c) == 0);
        must(dlclose(c.handle) == 0);
        for (size_t t = 0; t < LENGTH(threads); t++)
            pthread_join(threads[t], NULL);
    }
}

/* By the copy that is linked in, in a process of its own. */
static int sees_it_taken(void *nothing)
{
    struct enq_grant g;

    (void)nothing;
    want(ENQ_TIMEDOUT, env_take(env_open(), "a", 1200, &g));
    return 0;
}

static int gets_it(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    env_healthy(e);
    return 0;
}

static void P11_what_is_held_while_it_is_unloaded_stays_and_can_be_given_back(
    void)
{
    struct copy c = load(library());
    struct enq *e = open_with(&c);
    struct enq_grant g;

    want(ENQ_OK, take_with(&c, e, "env/a", 0, &g));
    must(dlclose(c.handle) == 0);
    env_join(env_child(sees_it_taken, NULL));
    c = load(library());
    want(ENQ_OK, c.valid(e, g.handle));
    want(ENQ_OK, c.unlock(e, g.handle, g.token));
    c.close(e);
    must(dlclose(c.handle) == 0);
    env_join(env_child(gets_it, NULL));
}

struct pending {
    struct copy *c;
    struct enq *e;
    struct enq_grant g;
    int rc;
};

static void *wait_in_it(void *arg)
{
    struct pending *p = arg;

    p->rc = take_with(p->c, p->e, "env/a", 10000, &p->g);
    return NULL;
}

struct turns {
    uint32_t held, unloaded;
};

static int hold_until_it_is_unloaded(void *arg)
{
    struct turns *turns = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 0, &g));
    shm_store_release(&turns->held, 1);
    eventually(env_stat(e).waiting == 1);
    eventually(shm_load_acquire(&turns->unloaded) == 1);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void P11_a_thread_that_waits_inside_survives_the_unloading(void)
{
    struct turns *turns = env_shared(sizeof(*turns));
    pid_t holder = env_child(hold_until_it_is_unloaded, turns);
    struct copy c = load(library());
    struct pending p = {.c = &c, .e = open_with(&c)};
    pthread_t thread;

    eventually(shm_load_acquire(&turns->held) == 1);
    must(pthread_create(&thread, NULL, wait_in_it, &p) == 0);
    usleep(20000);
    must(dlclose(c.handle) == 0);
    shm_store_release(&turns->unloaded, 1);
    env_join(holder);
    pthread_join(thread, NULL);
    want(ENQ_OK, p.rc);
    want(ENQ_OK, c.unlock(p.e, p.g.handle, p.g.token));
    c.close(p.e);
}

/* --- two copies in one process --- */

/* The second copy is refused with a word about it, or all is as it should be
   with two. NULL: refused. */
static struct enq *open_second(const struct copy *c)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4000};
    struct enq *e = NULL;

    if (c->open(&e, env_space(), &opts) != ENQ_OK &&
        strstr(c->why(), "copy") == NULL)
        env_fail(__FILE__, __LINE__, "open: %s", c->why());
    return e;
}

static void P11_locks_of_two_copies_in_one_process_exclude_each_other(void)
{
    struct enq *mine = env_open(), *e;
    struct copy c = load(library());
    struct enq_grant g, h;

    e = open_second(&c);
    for (int i = 0; e != NULL && i < 50; i++) {
        want(ENQ_OK, env_take(mine, "a", 0, &g));
        want(ENQ_BUSY, take_with(&c, e, "env/a", 0, &h));
        want(ENQ_OK, take_with(&c, e, "env/b", 0, &h));
        want(ENQ_OK, enq_unlock(mine, g.handle, g.token));
        want(ENQ_BUSY, env_take(mine, "b", 0, &g));
        want(ENQ_OK, c.unlock(e, h.handle, h.token));
    }
    must(env_stat(mine).sessions == (e == NULL ? 1 : 2));
    c.close(e);
    must(env_stat(mine).sessions == 1);
    env_healthy(mine);
}

static int close_one_and_die(void *nothing)
{
    struct enq *mine = env_open(), *e;
    struct copy c = load(library());
    struct enq_grant g;

    (void)nothing;
    e = open_second(&c);
    want(ENQ_OK, env_take(mine, "a", 0, &g));
    if (e != NULL) {
        want(ENQ_OK, take_with(&c, e, "env/b", 0, &g));
        enq_close(mine);
        want(ENQ_OK, c.valid(e, g.handle));
    }
    kill(getpid(), SIGKILL);
    return 1;
}

static void P11_the_death_of_a_process_with_two_copies_is_noticed_for_both(void)
{
    struct enq *e = env_open();
    struct enq_grant g;

    env_killed(env_child(close_one_and_die, NULL));
    want(ENQ_OK, env_take(e, "a", 1000, &g));
    want(ENQ_OK, env_take(e, "b", 1000, &g));
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
}

struct comer {
    const struct copy *c;
    uint32_t *wrong;
    int n;
};

/* Registers by one copy, in a thread of its own each time. */
static void *come_once(void *arg)
{
    struct comer *comer = arg;
    struct enq *e = open_second(comer->c);
    struct enq_grant g;
    int rc;

    if (e == NULL)
        return NULL;
    rc = take_with(comer->c, e, "env/busy", 8000, &g);
    if (rc == ENQ_OK)
        rc = comer->c->unlock(e, g.handle, g.token);
    if (rc != ENQ_OK) {
        dprintf(1, "%s: %s\n", enq_result_name(rc), comer->c->why());
        shm_add(comer->wrong, 1);
    }
    comer->c->close(e);
    return NULL;
}

static void *come_and_go(void *arg)
{
    struct comer *comer = arg;
    pthread_t thread;

    for (int i = 0; i < comer->n; i++) {
        if (pthread_create(&thread, NULL, come_once, comer) != 0)
            shm_add(comer->wrong, 1);
        else
            pthread_join(thread, NULL);
    }
    return NULL;
}

static int two_copies_register_at_once(void *nothing)
{
    struct copy shared = load(library()),
                own = {.open = enq_open,
                    .close = enq_close,
                    .lock = enq_lock_spec,
                    .unlock = enq_unlock,
                    .valid = enq_valid,
                    .why = enq_why};
    uint32_t wrong = 0;
    struct comer comers[4] = {{&own, &wrong, 150}, {&shared, &wrong, 150},
        {&own, &wrong, 150}, {&shared, &wrong, 150}};
    pthread_t threads[4];

    (void)nothing;
    alarm(120); /* it hangs */
    for (size_t i = 0; i < LENGTH(threads); i++)
        must(pthread_create(&threads[i], NULL, come_and_go, &comers[i]) == 0);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    return wrong != 0;
}

static void P11_two_copies_may_register_at_the_same_time(void)
{
    struct enq *e = env_open();

    env_join(env_child(two_copies_register_at_once, NULL));
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
}

const struct env_case load_cases[] = {
    CASE(P11_the_library_is_loaded_and_unloaded_in_a_loop),
    CASE(P11_threads_that_used_it_may_end_after_it_was_unloaded),
    CASE(P11_what_is_held_while_it_is_unloaded_stays_and_can_be_given_back),
    CASE(P11_a_thread_that_waits_inside_survives_the_unloading),
    CASE(P11_locks_of_two_copies_in_one_process_exclude_each_other),
    CASE(P11_the_death_of_a_process_with_two_copies_is_noticed_for_both),
    CASE(P11_two_copies_may_register_at_the_same_time),
    {0},
};
