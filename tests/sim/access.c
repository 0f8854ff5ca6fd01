/*
 * access.c - the library's accesses to memory: what the compiler calls in
 * place of the thread sanitizer.
 *
 * A plain access is announced before it is made; an atomic one is made here.
 * So a process that is taken off at a step has made all accesses before it and
 * none after: each place between two accesses is one to be preempted at, and
 * to die at.
 *
 * Stores, plain ones too, may pass through a buffer: others see them later than
 * their process goes on. They leave it in order, as on x86; or, in a weak
 * schedule, in any order that C11 and arm64 allow: two stores to the same bytes
 * in theirs, a release store after all that come before it. (Nor does the next
 * use of an entry pass the state that ended this one, though C11 lets it: the
 * oracle judges entries without their latch.) A full barrier empties the
 * buffer. Without this a missing barrier, or a release store that is none,
 * would never be noticed.
 *
 * While a process runs, memory is as it sees it itself: what it has buffered is
 * put in place when it gets the processor (memory_enter), and what was there is
 * put back when it leaves (memory_leave). So no read need be looked up.
 */
#include <string.h>

#include "sim/sim.h"

#define IS(p) ((uintptr_t)(p)-sim.base < sim.bytes)

enum kind { READ, WRITE, LOAD, STORE };

/* Where the atomic access was called from that is being made. */
static uintptr_t called_from;

#define CALLED() (called_from = (uintptr_t)__builtin_return_address(0))

static inline bool is_weakened(void)
{
    return __builtin_expect(sim.n_weakened > 0, 0) && weaken_is_at(called_from);
}

static inline bool wants_pairs(void)
{
    return __builtin_expect(sim.pairs, 0);
}

static inline int order_of(int order, bool weakened)
{
    return weakened ? __ATOMIC_RELAXED : order;
}

/* --- the buffer --- */

static uint64_t read_word(const void *at, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, bytes); /* little-endian */
    return value;
}

static bool overlap(const struct buffered *a, const struct buffered *b)
{
    const char *from = a->at, *other = b->at;

    return from < other + b->bytes && other < from + a->bytes;
}

static void swap_in_memory(struct buffered *b)
{
    uint64_t there = read_word(b->at, b->bytes);

    memcpy(b->at, &b->value, b->bytes);
    b->value = there;
}

void memory_enter(struct proc *p)
{
    weaken_enter(p);
    for (unsigned i = 0; i < p->n_buffer; i++)
        swap_in_memory(&p->buffer[i]);
}

void memory_leave(struct proc *p)
{
    for (unsigned i = p->n_buffer; i-- > 0;)
        swap_in_memory(&p->buffer[i]);
    weaken_leave(p);
}

/* The oracle is told of each atomic store that may be an entry's state. */
static void write_word(const struct buffered *b)
{
    uint64_t before = read_word(b->at, b->bytes);

    if (__builtin_expect(sim.n_weakened > 0, 0))
        weaken_written(b->at, before, b->bytes);
    memcpy(b->at, &b->value, b->bytes);
    if (b->bytes == 8 && b->atomic && (uintptr_t)b->at % UNIT_BYTES == 0)
        oracle_stored(b->at, before, b->began_ns);
}

static void write_now(void *at, uint64_t value, unsigned bytes)
{
    sim.by = sim.me;
    sim.asking = sim.me->asking;
    write_word(&(struct buffered){.at = at,
        .value = value,
        .bytes = bytes,
        .atomic = true,
        .began_ns = sim.me->began_ns});
}

/* A state, and what the same entry has behind it. */
static bool is_of_the_same(const struct buffered *state,
    const struct buffered *b)
{
    return state->release &&
        (uintptr_t)b->at - (uintptr_t)state->at < SMALL_UNITS * UNIT_BYTES;
}

/* May the i-th of a weak machine's buffer leave it next? */
static bool may_leave(const struct proc *p, unsigned i)
{
    if (p->buffer[i].release)
        return i == 0;
    for (unsigned j = 0; j < i; j++)
        if (overlap(&p->buffer[j], &p->buffer[i]) ||
            is_of_the_same(&p->buffer[j], &p->buffer[i]))
            return false;
    return true;
}

static unsigned next_to_leave(const struct proc *p)
{
    unsigned i = sim.weak ? (unsigned)below(p->n_buffer) : 0;

    return may_leave(p, i) ? i : 0;
}

/* Of one that does not run, or whose view is not in place. */
static void write_out(struct proc *p, unsigned i)
{
    struct buffered b = p->buffer[i];

    p->n_buffer--;
    memmove(p->buffer + i, p->buffer + i + 1, (p->n_buffer - i) * sizeof(b));
    sim.by = p;
    sim.asking = b.asking;
    write_word(&b);
}

void memory_drain_one(struct proc *p)
{
    if (p->n_buffer > 0)
        write_out(p, next_to_leave(p));
}

void memory_drain(struct proc *p)
{
    if (p == sim.me)
        memory_leave(p);
    while (p->n_buffer > 0)
        write_out(p, 0);
}

uint64_t memory_seen_by(const struct proc *p, const uint64_t *at)
{
    for (unsigned i = p->n_buffer; p != sim.me && i-- > 0;)
        if (p->buffer[i].at == at)
            return p->buffer[i].value;
    return *at;
}

static void drain(void)
{
    if (sim.me != NULL && (sim.me->n_buffer > 0 || sim.me->n_early > 0))
        memory_drain(sim.me);
}

/* What is about to be stored there: what is there now is kept. */
static void buffer_store(void *at, unsigned bytes, bool atomic, bool release)
{
    struct proc *p = sim.me;

    if (p->n_buffer == BUFFER_MAX) {
        memory_leave(p);
        memory_drain_one(p);
        memory_enter(p);
    }
    p->buffer[p->n_buffer++] = (struct buffered){.at = at,
        .value = read_word(at, bytes),
        .bytes = bytes,
        .atomic = atomic,
        .release = release,
        .began_ns = p->began_ns,
        .asking = p->asking};
}

/* --- plain accesses --- */

static inline void plain_read(const void *at, unsigned bytes)
{
    uintptr_t from = called_from;

    if (!IS(at))
        return;
    sim_step((uintptr_t)at - sim.base, READ);
    if (wants_pairs())
        before_plain(at, bytes, false, from);
}

/* One of many bytes is seen at once, as is what libc's functions write. */
static inline void plain_write(void *at, unsigned bytes)
{
    uintptr_t from = called_from;

    if (!IS(at))
        return;
    sim_step((uintptr_t)at - sim.base, WRITE);
    if (wants_pairs())
        before_plain(at, bytes, true, from);
    if (!sim.buffers || bytes > 2 * sizeof(uint64_t))
        return;
    for (unsigned i = 0; i < bytes; i += sizeof(uint64_t))
        buffer_store((char *)at + i,
            bytes - i < sizeof(uint64_t) ? bytes - i : sizeof(uint64_t), false,
            false);
}

#define PLAIN(n)                                                               \
    void __tsan_read##n(void *at);                                             \
    void __tsan_write##n(void *at);                                            \
    void __tsan_unaligned_read##n(void *at);                                   \
    void __tsan_unaligned_write##n(void *at);                                  \
    void __tsan_read##n(void *at)                                              \
    {                                                                          \
        CALLED();                                                              \
        plain_read(at, n);                                                     \
    }                                                                          \
    void __tsan_write##n(void *at)                                             \
    {                                                                          \
        CALLED();                                                              \
        plain_write(at, n);                                                    \
    }                                                                          \
    void __tsan_unaligned_read##n(void *at)                                    \
    {                                                                          \
        CALLED();                                                              \
        plain_read(at, n);                                                     \
    }                                                                          \
    void __tsan_unaligned_write##n(void *at)                                   \
    {                                                                          \
        CALLED();                                                              \
        plain_write(at, n);                                                    \
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
    CALLED();
    plain_read(at, (unsigned)bytes);
}

void __tsan_write_range(void *at, size_t bytes)
{
    CALLED();
    plain_write(at, bytes < UINT8_MAX ? (unsigned)bytes : UINT8_MAX);
}

/* clang's names for these; what they write is one access. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    CALLED();
    plain_read(from, (unsigned)bytes);
    plain_write(to, (unsigned)bytes);
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    CALLED();
    plain_read(from, (unsigned)bytes);
    plain_write(to, (unsigned)bytes);
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    CALLED();
    plain_write(to, (unsigned)bytes);
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

static inline uint64_t atomic_load(const void *at, unsigned bytes, int order)
{
    uintptr_t from = called_from;
    bool weakened = is_weakened();

    if (!IS(at)) {
        sim_private();
        if (wants_pairs())
            before_load(at, bytes, order_of(order, weakened), from);
        return read_word(at, bytes);
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, LOAD);
    if (weakened)
        weaken_early(at, bytes);
    if (wants_pairs())
        before_load(at, bytes, order_of(order, weakened), from);
    return read_word(at, bytes);
}

static bool is_buffered(const void *at, unsigned bytes)
{
    const struct buffered b = {.at = (void *)at, .bytes = bytes};

    for (unsigned i = 0; i < sim.me->n_buffer; i++)
        if (overlap(&sim.me->buffer[i], &b))
            return true;
    return false;
}

/* A release store, or an access that reads and writes, that has no order: it
   may be seen before all that its process has stored so far. */
static inline bool comes_first(bool weakened, const void *at, unsigned bytes)
{
    if (likely(!weakened) || !sim.weak || is_buffered(at, bytes))
        return false;
    weaken_linger();
    return true;
}

static inline void atomic_store(void *at, uint64_t value, unsigned bytes,
    int order)
{
    uintptr_t from = called_from;
    bool weakened = is_weakened();

    if (!IS(at)) {
        sim_private();
        if (wants_pairs())
            before_store(at, bytes, order_of(order, weakened), from);
        memcpy(at, &value, bytes);
        return;
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, STORE);
    if (wants_pairs())
        before_store(at, bytes, order_of(order, weakened), from);
    if (order == __ATOMIC_RELEASE && comes_first(weakened, at, bytes)) {
        write_now(at, value, bytes);
        return;
    }
    if (!sim.buffers || order == __ATOMIC_SEQ_CST) {
        drain();
        write_now(at, value, bytes);
        return;
    }
    buffer_store(at, bytes, true, order == __ATOMIC_RELEASE);
    memcpy(at, &value, bytes);
}

/* Before an access that reads and writes in one, which is a full barrier. */
static inline void atomic_both(const void *at, unsigned bytes, int order)
{
    uintptr_t from = called_from;
    bool weakened = is_weakened();

    if (!IS(at)) {
        sim_private();
        drain();
        if (wants_pairs())
            before_both(at, bytes, order_of(order, weakened), from);
        return;
    }
    sim_edge();
    sim_step((uintptr_t)at - sim.base, STORE);
    if (wants_pairs())
        before_both(at, bytes, order_of(order, weakened), from);
    if (!comes_first(weakened, at, bytes))
        drain();
    else
        weaken_early(at, bytes);
}

/* An exchange that a weak machine, or a faulty one, makes a mere store of. */
static inline uint64_t atomic_exchange(void *at, uint64_t value, unsigned bytes,
    int order)
{
    uint64_t before;

    if (IS(at) && sim.buffers && (sim.fault == FAULT_FENCES || is_weakened())) {
        before = atomic_load(at, bytes, __ATOMIC_RELAXED);
        atomic_store(at, value, bytes, __ATOMIC_RELAXED);
        if (sim.fault != FAULT_FENCES)
            weaken_barrier(at, bytes);
        return before;
    }
    atomic_both(at, bytes, order);
    before = read_word(at, bytes);
    if (IS(at))
        write_now(at, value, bytes);
    else
        memcpy(at, &value, bytes);
    return before;
}

static inline uint64_t atomic_fetch(void *at, uint64_t value, unsigned bytes,
    int order, uint64_t (*make)(uint64_t, uint64_t))
{
    uint64_t before;

    atomic_both(at, bytes, order);
    before = read_word(at, bytes);
    value = make(before, value);
    if (IS(at))
        write_now(at, value, bytes);
    else
        memcpy(at, &value, bytes);
    return before;
}

static inline bool atomic_cas(void *at, void *expected, uint64_t value,
    unsigned bytes, int order)
{
    uint64_t before;

    atomic_both(at, bytes, order);
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
        CALLED();                                                              \
        return (type)atomic_fetch(at, v, bits / 8, order, make_##name);        \
    }

#define CAS(bits, type, name)                                                  \
    int __tsan_atomic##bits##_compare_exchange_##name(void *at,                \
        void *expected, type v, int order, int failed);                        \
    int __tsan_atomic##bits##_compare_exchange_##name(void *at,                \
        void *expected, type v, int order, int failed)                         \
    {                                                                          \
        (void)failed;                                                          \
        CALLED();                                                              \
        return atomic_cas(at, expected, v, bits / 8, order);                   \
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
        (void)failed;                                                          \
        CALLED();                                                              \
        return atomic_cas(at, &was, v, bits / 8, order) ? expected : was;      \
    }

#define ATOMIC(bits, type)                                                     \
    type __tsan_atomic##bits##_load(const void *at, int order);                \
    void __tsan_atomic##bits##_store(void *at, type v, int order);             \
    type __tsan_atomic##bits##_exchange(void *at, type v, int order);          \
    type __tsan_atomic##bits##_load(const void *at, int order)                 \
    {                                                                          \
        CALLED();                                                              \
        return (type)atomic_load(at, bits / 8, order);                         \
    }                                                                          \
    void __tsan_atomic##bits##_store(void *at, type v, int order)              \
    {                                                                          \
        CALLED();                                                              \
        atomic_store(at, v, bits / 8, order);                                  \
    }                                                                          \
    type __tsan_atomic##bits##_exchange(void *at, type v, int order)           \
    {                                                                          \
        CALLED();                                                              \
        return (type)atomic_exchange(at, v, bits / 8, order);                  \
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
    bool weakened;

    CALLED();
    weakened = is_weakened();
    sim_edge();
    kernel_point();
    if (wants_pairs())
        before_fence(order_of(order, weakened));
    if (weakened)
        weaken_barrier(NULL, 0);
    else if (order == __ATOMIC_SEQ_CST && sim.fault != FAULT_FENCES)
        drain();
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}
