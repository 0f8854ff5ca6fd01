/*
 * log.c - what happened (see log.h).
 */
#include "log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "rules.h"

static uint64_t *counter;

void *log_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        perror("shared memory");
        exit(1);
    }
    return p;
}

void log_init(void)
{
    counter = log_shared(sizeof(*counter));
}

uint64_t seq_next(void)
{
    return __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
}

int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * NS_S + ts.tv_nsec;
}

bool life_doom(struct life *life)
{
    int64_t now = now_ns();
    uint64_t none = 0;

    if (!__atomic_compare_exchange_n(&life->kill_seq, &none, seq_next(), false,
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return false;
    life->kill_ns = now;
    return true;
}

struct op *op_begin(struct book *b, unsigned place, const struct op *what)
{
    uint32_t n = b->n_ops[place];
    struct op *op = &b->ops[place][n];

    if (n == OPS_MAX)
        return NULL;
    *op = *what;
    op->deaths = __atomic_load_n(&b->n_deaths, __ATOMIC_ACQUIRE);
    op->place = (uint8_t)place;
    op->begin_ns = now_ns();
    op->begin_seq = seq_next();
    __atomic_store_n(&b->n_ops[place], n + 1, __ATOMIC_RELEASE);
    return op;
}

/* The number first, the time after it: what ends by the clock later than
   end_ns was not over at end_seq. */
void op_end(struct op *op, int result)
{
    uint64_t seq = seq_next();

    op->end_ns = now_ns();
    op->result = result;
    __atomic_store_n(&op->end_seq, seq, __ATOMIC_RELEASE);
}

static const char *const kind_names[OP_KINDS] = {
    [OP_LOCK] = "lock",
    [OP_UNLOCK] = "unlock",
    [OP_PROMOTE] = "promote",
    [OP_DEMOTE] = "demote",
    [OP_RENEW] = "renew",
    [OP_VALID] = "valid",
    [OP_BREAK] = "break",
    [OP_ADOPT] = "adopt",
    [OP_TEST] = "test",
    [OP_LIST] = "list",
    [OP_CLOSE] = "close",
    [OP_CANCEL] = "cancel",
    [OP_EVENT] = "event",
};

static const char *const event_names[] = {
    [ENQ_EVENT_RESULT] = "result",
    [ENQ_EVENT_EXPIRED] = "expired",
    [ENQ_EVENT_EXPIRING] = "expiring",
    [ENQ_EVENT_LOST] = "lost",
    [ENQ_EVENT_BLOCKING] = "blocking",
};

static const char *kind_text(const struct op *op)
{
    if (op->kind == OP_LOCK && op->started)
        return "start";
    if (op->kind == OP_EVENT && op->event >= ENQ_EVENT_RESULT &&
        op->event <= ENQ_EVENT_BLOCKING)
        return event_names[op->event];
    return kind_names[op->kind % OP_KINDS];
}

/* What only some have. */
static void add_rest(char *text, size_t room, const struct op *op)
{
    size_t n = strlen(text);

    if (op->ticket != 0 || op->kind == OP_EVENT)
        n += (size_t)snprintf(text + n, room - n,
            ", ticket %llx handle %llx other \"%s\" empty %llu %.3f",
            (unsigned long long)op->ticket, (unsigned long long)op->handle,
            op->kind == OP_EVENT && op->other < OWNERS ? rule_owners[op->other]
                                                       : "",
            (unsigned long long)op->empty_seq, (double)op->empty_ns / 1e6);
    if (n < room && op->set != 0)
        n += (size_t)snprintf(text + n, room - n, ", %u of set %llx of %u",
            op->set_at + 1u, (unsigned long long)op->set, op->set_n);
    if (n < room && (op->heartbeat_ms != 0 || op->delay_ms != 0))
        snprintf(text + n, room - n, ", heartbeat %u delay %u",
            op->heartbeat_ms, op->delay_ms);
}

const char *op_text(const struct op *op)
{
    static char texts[4][600];
    static unsigned turn;
    char *text = texts[turn++ % 4];

    snprintf(text, sizeof(texts[0]),
        "%s%s %c %s of \"%s\" death=%d by %d(life %u): %s, seq %llu..%llu, "
        "at %.3f..%.3f ms, queued %llu due %.3f, ident %llx token %llu "
        "ttl %lld wait %lld",
        op->foreign ? "foreign " : "", kind_text(op), rule_letter(op->mode),
        rule_key_text(op->key), rule_owners[op->owner % OWNERS], op->on_death,
        op->place, op->life,
        op_ended(op) ? enq_result_name(op->result) : "no end",
        (unsigned long long)op->begin_seq, (unsigned long long)op->end_seq,
        (double)op->begin_ns / 1e6, (double)op->end_ns / 1e6,
        (unsigned long long)op->queued_seq, (double)op->due_ns / 1e6,
        (unsigned long long)op->ident, (unsigned long long)op->token,
        (long long)op->ttl_ms, (long long)op->wait_ms);
    add_rest(text, sizeof(texts[0]), op);
    return text;
}
