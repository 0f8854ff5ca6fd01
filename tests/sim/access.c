/*
 * access.c - the library's accesses to memory: what the compiler calls in
 * place of the thread sanitizer.
 *
 * A plain access is announced before it is made; an atomic one is made here.
 * So a process that is taken off at a step has made all accesses before it and
 * none after: each place between two accesses is one to be preempted at, and
 * to die at.
 *
 * Stores may pass through a buffer, as they do in an x86 processor: others see
 * an atomic store later than its process goes on, and in order, unless a full
 * barrier stands behind it. (A plain store drains the buffer first: that is
 * stricter than the processor, and happens under lock words only.) Without
 * this a missing barrier would never be noticed.
 */
#include <string.h>

#include "sim/sim.h"

#define IS(p) ((uintptr_t)(p)-sim.base < sim.bytes)

enum kind { READ, WRITE, LOAD, STORE };

/* --- the buffer --- */

static uint64_t read_word(const void *at, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, bytes); /* little-endian */
    return value;
}

/* The oracle hears of each store that may be an entry's state. */
static void write_word(void *at, uint64_t value, unsigned bytes,
    int64_t began_ns)
{
    uint64_t before;

    if (bytes != 8) {
        memcpy(at, &value, bytes);
        return;
    }
    before = *(uint64_t *)at;
    *(uint64_t *)at = value;
    if ((uintptr_t)at % UNIT_BYTES == 0)
        oracle_stored(at, before, began_ns);
}

static void write_now(void *at, uint64_t value, unsigned bytes)
{
    sim.by = sim.me;
    sim.asking = sim.me->asking;
    write_word(at, value, bytes, sim.me->began_ns);
}

void memory_drain_one(struct proc *p)
{
    struct buffered first = p->buffer[0];

    if (p->n_buffer == 0)
        return;
    p->n_buffer--;
    memmove(p->buffer, p->buffer + 1, p->n_buffer * sizeof(first));
    sim.by = p;
    sim.asking = first.asking;
    write_word(first.at, first.value, first.bytes, first.began_ns);
}

void memory_drain(struct proc *p)
{
    while (p->n_buffer > 0)
        memory_drain_one(p);
}

uint64_t memory_seen_by(const struct proc *p, const uint64_t *at)
{
    for (unsigned i = p->n_buffer; i-- > 0;)
        if (p->buffer[i].at == at)
            return p->buffer[i].value;
    return *at;
}

static void drain(void)
{
    if (sim.me != NULL && sim.me->n_buffer > 0)
        memory_drain(sim.me);
}

static struct buffered *find_buffered(const void *at, unsigned bytes)
{
    struct proc *p = sim.me;

    for (unsigned i = p->n_buffer; i-- > 0;) {
        const char *from = p->buffer[i].at;
        if ((const char *)at < from + p->buffer[i].bytes &&
            from < (const char *)at + bytes)
            return &p->buffer[i];
    }
    return NULL;
}

/* --- plain accesses --- */

static inline void plain_read(const void *at, unsigned bytes)
{
    if (!IS(at))
        return;
    sim_step((uintptr_t)at - sim.base, READ);
    if (sim.me->n_buffer > 0 && find_buffered(at, bytes) != NULL)
        memory_drain(sim.me);
}

static inline void plain_write(const void *at)
{
    if (!IS(at))
        return;
    sim_step((uintptr_t)at - sim.base, WRITE);
    drain();
}

#define PLAIN(n)                                                               \
    void __tsan_read##n(void *at);                                             \
    void __tsan_write##n(void *at);                                            \
    void __tsan_unaligned_read##n(void *at);                                   \
    void __tsan_unaligned_write##n(void *at);                                  \
    void __tsan_read##n(void *at)                                              \
    {                                                                          \
        plain_read(at, n);                                                     \
    }                                                                          \
    void __tsan_write##n(void *at)                                             \
    {                                                                          \
        plain_write(at);                                                       \
    }                                                                          \
    void __tsan_unaligned_read##n(void *at)                                    \
    {                                                                          \
        plain_read(at, n);                                                     \
    }                                                                          \
    void __tsan_unaligned_write##n(void *at)                                   \
    {                                                                          \
        plain_write(at);                                                       \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes);
void __tsan_init(void);
void __tsan_func_entry(void *from);
void __tsan_func_exit(void);

void __tsan_read_range(void *at, size_t bytes)
{
    plain_read(at, (unsigned)bytes);
}

void __tsan_write_range(void *at, size_t bytes)
{
    (void)bytes;
    plain_write(at);
}

/* clang's names for these; what they write is one access. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    plain_read(from, (unsigned)bytes);
    plain_write(to);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    plain_read(from, (unsigned)bytes);
    plain_write(to);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    plain_write(to);
    return memset(to, value, bytes);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
    (void)from;
}

void __tsan_func_exit(void)
{
}

/* --- atomic accesses --- */

static inline uint64_t atomic_load(const void *at, unsigned bytes)
{
    struct buffered *b;

    if (!IS(at)) {
        sim_private();
        return read_word(at, bytes);
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, LOAD);
    if (sim.me->n_buffer == 0)
        return read_word(at, bytes);
    b = find_buffered(at, bytes);
    if (b != NULL && b->at == at && b->bytes == bytes)
        return b->value;
    if (b != NULL)
        drain();
    return read_word(at, bytes);
}

static inline void atomic_store(void *at, uint64_t value, unsigned bytes,
    bool barrier)
{
    if (!IS(at)) {
        sim_private();
        memcpy(at, &value, bytes);
        return;
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, STORE);
    if (!sim.buffers || barrier) {
        drain();
        write_now(at, value, bytes);
        return;
    }
    if (sim.me->n_buffer == BUFFER_MAX)
        memory_drain_one(sim.me);
    sim.me->buffer[sim.me->n_buffer++] =
        (struct buffered){at, value, bytes, sim.me->began_ns, sim.me->asking};
}

/* Before an access that reads and writes in one, which is a full barrier. */
static inline void atomic_both(const void *at)
{
    if (!IS(at)) {
        sim_private();
        drain();
        return;
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, STORE);
    drain();
}

/* An exchange that a weak machine, or a faulty one, makes a mere store of. */
static inline uint64_t atomic_exchange(void *at, uint64_t value, unsigned bytes)
{
    uint64_t before;

    if (sim.fault == FAULT_FENCES && IS(at) && sim.buffers) {
        before = atomic_load(at, bytes);
        atomic_store(at, value, bytes, false);
        return before;
    }
    atomic_both(at);
    before = read_word(at, bytes);
    if (IS(at))
        write_now(at, value, bytes);
    else
        memcpy(at, &value, bytes);
    return before;
}

static inline uint64_t atomic_fetch(void *at, uint64_t value, unsigned bytes,
    uint64_t (*make)(uint64_t, uint64_t))
{
    uint64_t before;

    atomic_both(at);
    before = read_word(at, bytes);
    value = make(before, value);
    if (IS(at))
        write_now(at, value, bytes);
    else
        memcpy(at, &value, bytes);
    return before;
}

static inline bool atomic_cas(void *at, void *expected, uint64_t value,
    unsigned bytes)
{
    uint64_t before;

    atomic_both(at);
    before = read_word(at, bytes);
    if (before != read_word(expected, bytes) &&
        !(sim.fault == FAULT_CAS && IS(at) && chance(64))) {
        memcpy(expected, &before, bytes);
        return false;
    }
    if (IS(at))
        write_now(at, value, bytes);
    else
        memcpy(at, &value, bytes);
    return true;
}

static uint64_t make_add(uint64_t a, uint64_t b)
{
    return a + b;
}

static uint64_t make_sub(uint64_t a, uint64_t b)
{
    return a - b;
}

static uint64_t make_and(uint64_t a, uint64_t b)
{
    return a & b;
}

static uint64_t make_or(uint64_t a, uint64_t b)
{
    return a | b;
}

#define FETCH(bits, type, name)                                                \
    type __tsan_atomic##bits##_fetch_##name(void *at, type v, int order);      \
    type __tsan_atomic##bits##_fetch_##name(void *at, type v, int order)       \
    {                                                                          \
        (void)order;                                                           \
        return (type)atomic_fetch(at, v, bits / 8, make_##name);               \
    }

#define CAS(bits, type, name)                                                  \
    int __tsan_atomic##bits##_compare_exchange_##name(void *at,                \
        void *expected, type v, int order, int failed);                        \
    int __tsan_atomic##bits##_compare_exchange_##name(void *at,                \
        void *expected, type v, int order, int failed)                         \
    {                                                                          \
        (void)order, (void)failed;                                             \
        return atomic_cas(at, expected, v, bits / 8);                          \
    }

/* As clang asks for it: what was there is the answer. */
#define CAS_VALUE(bits, type)                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(void *at, type expected,   \
        type v, int order, int failed);                                        \
    type __tsan_atomic##bits##_compare_exchange_val(void *at, type expected,   \
        type v, int order, int failed)                                         \
    {                                                                          \
        type was = expected;                                                   \
                                                                               \
        (void)order, (void)failed;                                             \
        return atomic_cas(at, &was, v, bits / 8) ? expected : was;             \
    }

#define ATOMIC(bits, type)                                                     \
    type __tsan_atomic##bits##_load(const void *at, int order);                \
    void __tsan_atomic##bits##_store(void *at, type v, int order);             \
    type __tsan_atomic##bits##_exchange(void *at, type v, int order);          \
    type __tsan_atomic##bits##_load(const void *at, int order)                 \
    {                                                                          \
        (void)order;                                                           \
        return (type)atomic_load(at, bits / 8);                                \
    }                                                                          \
    void __tsan_atomic##bits##_store(void *at, type v, int order)              \
    {                                                                          \
        atomic_store(at, v, bits / 8, order == __ATOMIC_SEQ_CST);              \
    }                                                                          \
    type __tsan_atomic##bits##_exchange(void *at, type v, int order)           \
    {                                                                          \
        (void)order;                                                           \
        return (type)atomic_exchange(at, v, bits / 8);                         \
    }                                                                          \
    FETCH(bits, type, add)                                                     \
    FETCH(bits, type, sub)                                                     \
    FETCH(bits, type, and)                                                     \
    FETCH(bits, type, or)                                                      \
    CAS(bits, type, strong)                                                    \
    CAS(bits, type, weak)                                                      \
    CAS_VALUE(bits, type)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

void __tsan_atomic_thread_fence(int order)
{
    sim_edge();
    kernel_point();
    if (order == __ATOMIC_SEQ_CST && sim.fault != FAULT_FENCES)
        drain();
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}
