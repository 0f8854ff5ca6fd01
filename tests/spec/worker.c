/*
 * worker.c - the process behind a letter, seen from inside: takes orders from
 * its socket, calls the library, sends back what came out. One thread, no
 * memory of what it holds: the runner keeps handles and tokens.
 *
 *	spec-run --worker LETTER FD SPARE ADDRESS COMPAT STRICT SLOTS
 */
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/point.h"

struct self {
    char **argv;
    int fd, spare;
    const char *address;
    char owner[ENQ_OWNER_BYTES];
    struct enq_open_opts opts;
    struct enq *e;
};

typedef int (*doer)(struct self *, const struct order *, struct answer *);

static void say(const struct self *self, const struct answer *answer)
{
    size_t n = offsetof(struct answer, rows) +
        answer->n_rows * sizeof(answer->rows[0]);

    if (send(self->fd, answer, n, MSG_NOSIGNAL) < 0)
        _exit(3);
}

static void hello(const struct self *self)
{
    struct answer answer = {.pid = getpid()};

    say(self, &answer);
}

static int do_opens(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    self->opts.flags = order->open_flags;
    if (order->has_owner)
        memcpy(self->owner, order->owner, sizeof(self->owner));
    return enq_open(&self->e, self->address, &self->opts);
}

static int do_closes(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)order, (void)answer;
    enq_close(self->e);
    self->e = NULL;
    return ENQ_OK;
}

static int do_exits(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)self, (void)order, (void)answer;
    exit(0);
}

/* The child goes on as another letter, on the spare socket. */
static int do_forks(struct self *self, const struct order *order,
    struct answer *answer)
{
    pid_t pid = fork();

    (void)order;
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        close(self->fd);
        self->fd = self->spare;
    } else {
        close(self->spare);
        answer->pid = pid;
    }
    self->spare = -1;
    return ENQ_OK;
}

static int do_execs(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)order, (void)answer;
    execv("/proc/self/exe", self->argv);
    return -errno;
}

static int do_armed(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)self, (void)answer;
    point_arm(order->text);
    return ENQ_OK;
}

static void fill_request(const struct order *order, struct enq_req *req)
{
    const char *field = order->object.key;

    *req = (struct enq_req){
        .size = sizeof(*req),
        .name = order->object.name,
        .literal = order->object.literal,
        .flags = order->flags,
        .mode = order->mode,
        .on_death = order->on_death,
        .owner = order->has_owner ? order->owner : NULL,
        .id = order->has_id ? order->id : NULL,
        .wait_ms = order->wait_ms,
        .ttl_ms = order->ttl_ms,
        .heartbeat_ms = order->heartbeat_ms,
        .delay_ms = order->delay_ms,
        .retries = order->retries,
        .retry_ms = order->retry_ms,
    };
    for (uint32_t i = 0; i < order->object.fields; i++) {
        req->key[i] = field;
        field += strlen(field) + 1;
    }
}

static int do_lock(struct self *self, const struct order *order,
    struct answer *answer)
{
    struct enq_req req;
    int rc;

    fill_request(order, &req);
    rc = enq_lock(self->e, &req, &answer->grant);
    if (rc == ENQ_OK && !(order->flags & ENQ_TEST))
        return enq_id(self->e, answer->grant.handle, answer->id);
    return rc;
}

static int do_lockspec(struct self *self, const struct order *order,
    struct answer *answer)
{
    const char mode[] = {mode_letter(order->mode), 0};

    return enq_lock_spec(self->e, order->text, mode,
        order->has_owner ? order->owner : NULL, order->wait_ms, order->ttl_ms,
        &answer->grant);
}

static int do_unlock(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    return enq_unlock(self->e, order->handle, order->token);
}

static int do_promote(struct self *self, const struct order *order,
    struct answer *answer)
{
    return enq_promote(self->e, order->handle, order->token, &answer->grant);
}

static int do_demote(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    return enq_demote(self->e, order->handle, order->token);
}

static int do_renew(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    return enq_renew(self->e, order->handle, order->token, order->ttl_ms);
}

static int do_valid(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    return enq_valid(self->e, order->handle);
}

static int do_find(struct self *self, const struct order *order,
    struct answer *answer)
{
    memcpy(answer->id, order->id, sizeof(answer->id));
    return enq_find(self->e, order->id, &answer->grant.handle);
}

static int do_id(struct self *self, const struct order *order,
    struct answer *answer)
{
    return enq_id(self->e, order->handle, answer->id);
}

static int do_adopt(struct self *self, const struct order *order,
    struct answer *answer)
{
    memcpy(answer->id, order->id, sizeof(answer->id));
    return enq_adopt(self->e, order->id, &answer->grant);
}

static int do_break(struct self *self, const struct order *order,
    struct answer *answer)
{
    (void)answer;
    return enq_break(self->e, order->id);
}

static int do_list(struct self *self, const struct order *order,
    struct answer *answer)
{
    size_t total = 0;
    int rc = enq_list(self->e, order->object.name, order->owner, answer->rows,
        ROWS_MAX, &total);

    answer->n_rows = total < ROWS_MAX ? total : ROWS_MAX;
    return rc;
}

static const doer doers[VERBS] = {
    [VERB_OPENS] = do_opens,
    [VERB_CLOSES] = do_closes,
    [VERB_EXITS] = do_exits,
    [VERB_FORKS] = do_forks,
    [VERB_EXECS] = do_execs,
    [VERB_ARMED] = do_armed,
    [VERB_LOCK] = do_lock,
    [VERB_TEST] = do_lock,
    [VERB_LOCKSPEC] = do_lockspec,
    [VERB_UNLOCK] = do_unlock,
    [VERB_PROMOTE] = do_promote,
    [VERB_DEMOTE] = do_demote,
    [VERB_RENEW] = do_renew,
    [VERB_VALID] = do_valid,
    [VERB_FIND] = do_find,
    [VERB_ID] = do_id,
    [VERB_ADOPT] = do_adopt,
    [VERB_BREAK] = do_break,
    [VERB_LIST] = do_list,
};

/* Whoever locks without having opened is opened first. */
static int obey(struct self *self, const struct order *order,
    struct answer *answer)
{
    static const struct order opens;
    int rc = ENQ_OK;

    if (order->verb > VERB_ARMED && self->e == NULL)
        rc = do_opens(self, &opens, answer);
    return rc == ENQ_OK ? doers[order->verb](self, order, answer) : rc;
}

static void serve(struct self *self)
{
    static struct answer answer;
    struct order order;

    while (recv(self->fd, &order, sizeof(order), 0) == sizeof(order)) {
        memset(&answer, 0, sizeof(answer));
        answer.result = obey(self, &order, &answer);
        if (answer.result != ENQ_OK)
            snprintf(answer.why, sizeof(answer.why), "%s", enq_why());
        if (order.verb == VERB_FORKS && answer.pid == 0)
            answer.pid = getpid();
        say(self, &answer);
    }
}

int worker_main(int argc, char **argv)
{
    struct self self = {.argv = argv};

    if (argc != 9)
        return 2;
    snprintf(self.owner, sizeof(self.owner), "%c", argv[2][0] | 0x20);
    self.fd = atoi(argv[3]);
    self.spare = atoi(argv[4]);
    self.address = argv[5];
    self.opts = (struct enq_open_opts){
        .size = sizeof(self.opts),
        .compat = argv[6][0] != 0 ? argv[6] : NULL,
        .strict = (uint32_t)atoi(argv[7]),
        .slots = (uint32_t)atoi(argv[8]),
        .owner = self.owner,
    };
    hello(&self);
    serve(&self);
    return 0;
}
