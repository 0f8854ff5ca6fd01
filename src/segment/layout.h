/*
 * layout.h - segment: every byte of a segment. Nobody else knows a number.
 *
 *	offset 0        header            one page
 *	SEG_THREADS     thread slots      THREADS_MAX x 256 B   (sparse)
 *	SEG_SESSIONS    session slots     SESSIONS_MAX x 256 B  (sparse)
 *	SEG_GATES       gates             GATES x 64 B
 *	SEG_SHARDS      shards            SHARDS_ALL x 64 B
 *	SEG_DIRS        their segments    SHARDS_ALL x 512 B
 *	SEG_OWNERS      who waits         OWNER_HASHES x 4 B
 *	SEG_LINES       first segments    SHARDS_ALL x half a page
 *	h->pages_at     page directory    pages_max x 8 B       (sparse)
 *	h->arena_at     pages             pages_max x 4 KiB     (sparse)
 *
 * The file is as long as it may ever become, but sparse: what is used has
 * been taken with posix_fallocate first, so that a full tmpfs is an error and
 * not a SIGBUS. It is mapped once, whole, at an address of each process's
 * own; so it holds no pointers but offsets. (The one exception is what glibc
 * writes into the life mutexes: the links of each thread's own robust list.)
 *
 * Two sizes of offset: a byte offset (uint64_t) in the header only, and a
 * `ref` (uint32_t) everywhere else: a byte offset divided by 64. 0 is none.
 *
 * TRUE is what recovery starts from; DERIVED is what it makes anew. See
 * recovery/README.md.
 */
#ifndef SEGMENT_LAYOUT_H
#define SEGMENT_LAYOUT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "enq.h"

#define LAYOUT_MAGIC UINT64_C(0x314b434f4c514e45) /* "ENQLOCK1" */
#define LAYOUT_VERSION 8

#define PAGE_BYTES 4096u
#define UNIT_BYTES 64u
#define UNITS_PER_PAGE (PAGE_BYTES / UNIT_BYTES)

#define THREADS_MAX 16384u /* two of each process that calls from one */
#define SESSIONS_MAX 8192u
#define GATES 1024u
#define SHARDS 256u   /* of keys */
#define ID_SHARDS 16u /* of ids that callers brought */
#define SHARDS_ALL (SHARDS + ID_SHARDS)

#define OWNER_HASHES 1024u /* hashes of owners, counted while they wait */

#define LINE_SLOTS 10u
#define LINES_PER_SEGMENT (PAGE_BYTES / 64u)
#define LINES_FIRST (LINES_PER_SEGMENT / 2) /* empty space below 1 MiB */
#define SEGMENTS_MAX 128u /* of lines, per shard: 12 M objects in all */
#define LINE_LOAD 6u      /* objects per line before one more line is used */

#define SLOTS_DEFAULT 10000000u
#define SLOTS_MAX 100000000u

typedef uint32_t ref_t;         /* byte offset / 64; 0 = none */
typedef uint32_t thread_ref_t;  /* thread slot | generation; 0 = none */
typedef uint32_t session_ref_t; /* session slot | generation; 0 = none */

#define THREAD_BITS 14
#define THREAD_MASK ((1u << THREAD_BITS) - 1)
#define THREAD_GENERATIONS                                                     \
    (1u << (31 - THREAD_BITS)) /* bit 31 of a lock word is WAITERS */
#define SESSION_BITS 13
#define SESSION_MASK ((1u << SESSION_BITS) - 1)
#define SESSION_GENERATIONS (1u << (32 - SESSION_BITS))

/* --- header ---
 * Everything up to `checksum` is written once, before the segment has a name.
 */
struct seg_header {
    uint64_t magic; /* stored last */
    uint32_t layout_version;
    uint32_t layout_hash;
    uint8_t uuid[16];
    char boot_id[40];
    int64_t timens_ns[2]; /* offsets of monotonic and boottime */
    int64_t created_wall_ms;
    uint64_t bytes; /* of the file */
    uint64_t pages_at, arena_at;
    uint32_t pages_max;
    uint32_t slab_pages_max;
    uint32_t slots_max;
    uint32_t compat; /* which mode table */
    uint32_t strict;
    uint32_t mode; /* permissions */
    uint64_t hash_seed;
    uint64_t token_base; /* ns since 1970 at creation: see entry.token */
    uint32_t checksum;   /* of all above but magic */
    uint32_t unlinked;   /* the name was seen to be gone: no new grants */
    uint32_t pad0[22];

    /* line: recovery. Guards thread slots' reuse. */
    uint32_t recovery_word;
    uint32_t pad1[15];

    /* line: registry; under map_registry_lock() */
    uint32_t threads_high; /* slots ever used, so that walks can end */
    uint32_t sessions_high;
    int64_t leases_due_ns; /* hint: when the first lock that outlived its
                              session runs out, or before; 0 = none */
    uint32_t listeners;    /* hint: sessions that listen */
    uint32_t left;         /* hint: raised when a session has ended that held
                              locks for others, and left them behind */
    uint32_t pad2[10];

    /* line: growth. Guards the page directory. */
    uint32_t grow_word;
    uint32_t pages_used;   /* DERIVED from the directory */
    uint32_t pages_ready;  /* backed by memory */
    uint32_t slab_pages;   /* DERIVED */
    uint32_t orphan_pages; /* hint: slabs that nobody owns, worth a look */
    uint32_t orphan_at;    /* hint: where to go on looking for them */
    uint32_t wanted; /* futex: how often somebody looked for room in vain */
    uint32_t given;  /* futex: how often some was given back for him */
    uint32_t pad3[8];

    /* line: order of arrival of those who wait (nobody else takes one). */
    uint64_t ticket;
    uint64_t pad4[7];

    /* what ended thread slots had counted; added to atomically */
    uint64_t retired[32];
    char overflow_owner[ENQ_OWNER_BYTES]; /* who met the full table last */
};

/* --- threads and sessions ---
 * A slot is in use while `ref` is not 0; `life` is locked once, by the thread
 * that registers, and never by anyone else.
 */
enum counter {
    COUNT_GRANTS,
    COUNT_REFUSALS,
    COUNT_WAITS,
    COUNT_WAIT_GRANTS,
    COUNT_TIMEOUTS,
    COUNT_CANCELS,
    COUNT_RELEASES,
    COUNT_EXPIRIES,
    COUNT_PROMOTES,
    COUNT_PROMOTES_REFUSED,
    COUNT_LOST,
    COUNT_FORCED,
    COUNT_OVERFLOWS,
    COUNT_OWNER_DEATHS,
    COUNT_RECOVERIES,
    COUNT_CONTENDED,
    COUNTERS
};

/* Which process has the slot, so that others can prove that it has ended, and
   what they know of that. See sync/ended.h. */
struct process {
    uint32_t pid;       /* in its own PID namespace */
    uint32_t pid_space; /* that namespace's inode; 0 = not known */
    uint64_t lock_at;   /* the byte of the file that is locked as long as its
                           memory is there (segment/tie.h); 0 = none */
    int64_t dying_ns;   /* hint: first seen to be dying then; 0 = never */
    int64_t look_ns;    /* hint: its end was last looked for then */
    uint32_t over;      /* the slot's ref: the end of that use is proved */
    uint32_t pad;
};

struct thread_slot {
    pthread_mutex_t life; /* TRUE */
    thread_ref_t ref;     /* TRUE: who uses it; 0 = free */
    uint32_t generation;  /* of the last use */
    thread_ref_t keeper;  /* TRUE: its process's helper thread, or 0 */
    uint32_t pad[3];
    uint64_t counts[COUNTERS]; /* written by its thread only; of a free slot:
                                  its last one's */
    uint64_t waiting; /* hint: the handle that it waits for, or means to */
    uint64_t set;     /* TRUE: ticket of the lock set that it is taking, under
                         all words; 0 = none. See store/journal.h */
    session_ref_t set_of;
    uint32_t pad1;
    struct process process; /* TRUE */
};

#define CALLS_KEPT 14

enum session_state {
    SESSION_FREE,
    SESSION_LIVE,
    SESSION_ENDING, /* being cleaned up */
};

struct session_slot {
    pthread_mutex_t life; /* TRUE; held by the process's helper thread */
    session_ref_t ref;    /* TRUE */
    uint32_t generation;
    uint32_t state;      /* enum session_state */
    thread_ref_t keeper; /* TRUE: its process's helper thread, or 0 */
    uint8_t uuid[16];
    uint32_t loose;   /* hint: entries of its slabs that others have freed */
    uint32_t adopted; /* it holds entries in slabs of others */
    struct process process; /* TRUE */
    uint32_t heirs; /* TRUE: there is a descriptor that keeps it: heirs.h */
    uint32_t pad0;

    /* lines: how its helper thread is told of changes (store/call.h) */
    uint32_t calls;   /* how many there were; a futex */
    uint32_t asleep;  /* the helper is, or is about to be, asleep */
    uint32_t listens; /* it wants to hear of its held locks as well */
    uint32_t started; /* hint: requests of its that wait without a thread */
    uint64_t call[CALLS_KEPT]; /* number << 32 | ref of the entry; a hint */
};

/* --- gates and shards --- */
struct gate {
    uint32_t word;
    uint32_t raised;    /* DERIVED: generic entries, and requests under way */
    ref_t head;         /* DERIVED: its generic entries, in a ring */
    uint32_t n_waiting; /* DERIVED: of these */
    uint64_t token;     /* at least that of its generic grants */
    uint64_t spare[5];
};

struct shard {
    uint32_t word;
    uint32_t n_lines;   /* in use: linear hashing */
    uint32_t n_objects; /* DERIVED */
    uint32_t n_waiting; /* DERIVED: entries */
    uint32_t n_segments;
    uint32_t cramped; /* hint: wants one more segment */
    uint64_t token;   /* the newest given in this shard */
    uint64_t spare[4];
};

/* A segment's lines are one page: ref of its first line. The first segment is
   half a page and where it always is, at SEG_LINES: index 0 is not used. */
struct shard_dir {
    ref_t segment[SEGMENTS_MAX];
};

/* DERIVED, all of it. One cache line answers "is there an object with this
   hash?": the tag is 8 bits of the name's hash and 7 of the key's, so that a
   generic request finds all keys of a name by reading lines only. */
struct line {
    uint16_t tag[LINE_SLOTS]; /* 0 = empty */
    ref_t ref[LINE_SLOTS];    /* first entry of the object's ring */
    ref_t more;               /* objects that found no slot, by entry.spill */
};

/* --- pages and entries ---
 * One 64-bit store claims a page or gives it up.
 */
enum page_kind {
    PAGE_FREE,
    PAGE_SMALL, /* a slab of 21 entries of 192 bytes */
    PAGE_LARGE, /* a slab of 3 entries of 1,344 bytes */
    PAGE_LINES, /* index lines; owner = shard */
};

struct page_info {
    uint32_t owner; /* session_ref_t of the slab; 0 = orphan */
    uint32_t kind;
};

#define SMALL_UNITS 3u
#define LARGE_UNITS 21u
#define SMALL_PER_PAGE 21u
#define LARGE_PER_PAGE 3u
#define ENTRY_HEAD_BYTES 112u
#define SMALL_PAYLOAD (SMALL_UNITS * UNIT_BYTES - ENTRY_HEAD_BYTES)
#define LARGE_PAYLOAD (LARGE_UNITS * UNIT_BYTES - ENTRY_HEAD_BYTES)

/* The first unit of a slab page is kept free of entries: an entry's unit
   within its page is then 1, 4, 7, ... whatever its size. */

/* Low half of entry.state; the high half is the generation. */
enum phase {
    PHASE_FREE,    /* anybody who owns the slab may take it */
    PHASE_CACHED,  /* in the magazine of a thread of the slab's owner */
    PHASE_WAITING, /* queued */
    PHASE_HELD,    /* granted */
    PHASE_GONE,    /* taken away; kept to tell its holder why */
};

enum gone {
    GONE_NOT,
    GONE_EXPIRED,
    GONE_LOST,
    GONE_FORCED,
    GONE_DIED,
    GONE_CANCELLED,
    GONE_GIVEN, /* given back by another session: its holder is to hear of it */
    GONE_REASONS,
};

#define STATE_PHASE(s) ((unsigned)(s)&0xfu)
#define STATE_MODE(s) ((unsigned)((s) >> 4) & 0xfu)
#define STATE_GONE(s) ((unsigned)((s) >> 8) & 0xfu)
#define STATE_POKED UINT64_C(0x1000) /* a waiter told to try for itself */
#define STATE_ASKED UINT64_C(0x2000) /* held: somebody waits for it */
#define STATE_TOLD UINT64_C(0x4000)  /* its session knows: asked, or gone */
#define STATE_NEAR UINT64_C(0x8000)  /* and that its ttl is near */
#define STATE_ENDED                                                            \
    UINT64_C(0x10000)                  /* and that it has ended; it is delayed \
                                        */
#define STATE_FIRST UINT64_C(0x20000)  /* POKED with no waiter before it */
#define STATE_SOONER UINT64_C(0x40000) /* its waiter is to look again first */
#define STATE_NOTES                                                            \
    (STATE_POKED | STATE_ASKED | STATE_TOLD | STATE_NEAR | STATE_ENDED |       \
        STATE_FIRST | STATE_SOONER)
#define STATE_GENERATION(s) ((uint32_t)((s) >> 32))
#define STATE(generation, phase, mode, gone)                                   \
    ((uint64_t)(generation) << 32 | (uint64_t)(gone) << 8 |                    \
        (uint64_t)(mode) << 4 | (uint64_t)(phase))

/* Who is to be woken when a waiting entry changes. */
enum asleep {
    ASLEEP_NOBODY,  /* its thread is awake, and will look */
    ASLEEP_THREAD,  /* is, or is about to be, in futex_waitv */
    ASLEEP_STARTED, /* no thread: the session's helper. Plus a number of its */
};

/*
 * The record of a request, waiting or held. Guarded by its shard's lock word
 * (generic ones: the gate's), and by the gate's as well while it is raised.
 * TRUE but for the links; `state` is stored last: that store is the commit.
 * A waiter sleeps on the low half of `state`.
 */
struct entry {
    uint64_t state;
    uint64_t token;      /* waiting, of a set: the ref of its next member */
    int64_t deadline_ns; /* INT64_MAX = none; of a waiter: when he is due */
    int64_t since_ns;    /* granted, or queued while waiting */
    uint64_t ticket;     /* order of arrival, one for a set; 0 = never waited;
                            ENTRY_HEIR: for whom it was adopted */
    int64_t ttl_ms;      /* as asked for; < 0 = none */
    uint64_t hash;
    uint64_t id_half; /* of the session that made it (base/id.h) */
    session_ref_t session;
    ref_t next, prev; /* DERIVED: ring of its object or gate */
    ref_t spill;      /* DERIVED: next object that found no slot in a line */
    ref_t id_spill;   /* DERIVED: the same among ids */
    uint32_t asleep;  /* enum asleep: how its waiter is woken */
    uint32_t pid;
    uint32_t name_hash; /* decides its gate */
    uint16_t name_bytes, field_bytes, owner_bytes, id_bytes;
    uint16_t generic, literal;
    uint8_t fields, on_death; /* enum enq_death | flags */
    uint8_t taker_bytes;      /* GONE_LOST: who took it, behind all else */
    uint8_t cpu; /* hint: where its waiter was last seen; 0: it never waited */
    char payload[];
};

/*
 *	| name | fields | owner | id | delay | peer | taker |
 *	  2..    0..      1..     0..  4 B     2..    GONE_LOST: taker_bytes
 *
 * The payload: each text with its zero; the id if its caller brought one. Flags
 * in on_death say whether there is a lock delay (ms), and for whom the process
 * asks; and of another kind that it is, or was while it waited, one of a set.
 *
 * For whom it was adopted no text says, as there may be no room for one: a
 * number, where the ticket was, which nobody asks for that is held. With its
 * highest bit set it is no request's.
 */
#define ENTRY_DELAYS 0x80u
#define ENTRY_SET 0x40u
#define ENTRY_PEER 0x20u
#define ENTRY_HEIR 0x10u
#define ENTRY_FOR_OTHERS (ENTRY_PEER | ENTRY_HEIR)
#define HEIR_BIT (UINT64_C(1) << 63)
#define ENTRY_DEATH(on_death) ((unsigned)(on_death)&0x0fu)

/* --- where things are --- */
#define SEG_THREADS ((uint64_t)PAGE_BYTES)
#define SEG_SESSIONS (SEG_THREADS + THREADS_MAX * sizeof(struct thread_slot))
#define SEG_GATES (SEG_SESSIONS + SESSIONS_MAX * sizeof(struct session_slot))
#define SEG_SHARDS (SEG_GATES + GATES * sizeof(struct gate))
#define SEG_DIRS (SEG_SHARDS + SHARDS_ALL * sizeof(struct shard))
#define SEG_OWNERS (SEG_DIRS + SHARDS_ALL * sizeof(struct shard_dir))
#define SEG_LINES_RAW (SEG_OWNERS + OWNER_HASHES * sizeof(uint32_t))
#define SEG_LINES ((SEG_LINES_RAW + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
#define SEG_FIXED_END (SEG_LINES + (uint64_t)SHARDS_ALL * LINES_FIRST * 64)

#define LAYOUT_ASSERT(x) _Static_assert(x, #x)
LAYOUT_ASSERT(sizeof(struct seg_header) <= PAGE_BYTES);
LAYOUT_ASSERT(THREADS_MAX <= 1u << THREAD_BITS);
LAYOUT_ASSERT(SESSIONS_MAX <= 1u << SESSION_BITS);
LAYOUT_ASSERT(offsetof(struct seg_header, checksum) == 160);
LAYOUT_ASSERT(offsetof(struct seg_header, recovery_word) == 256);
LAYOUT_ASSERT(offsetof(struct seg_header, threads_high) == 320);
LAYOUT_ASSERT(offsetof(struct seg_header, grow_word) == 384);
LAYOUT_ASSERT(offsetof(struct seg_header, ticket) == 448);
LAYOUT_ASSERT(offsetof(struct thread_slot, counts) == 64);
LAYOUT_ASSERT(sizeof(struct thread_slot) == 256);
LAYOUT_ASSERT(sizeof(struct process) == 40);
LAYOUT_ASSERT(sizeof(struct session_slot) == 256);
LAYOUT_ASSERT(offsetof(struct session_slot, calls) == 128);
LAYOUT_ASSERT(sizeof(struct gate) == 64);
LAYOUT_ASSERT(sizeof(struct shard) == 64);
LAYOUT_ASSERT(sizeof(struct line) == 64);
LAYOUT_ASSERT(sizeof(struct page_info) == 8);
LAYOUT_ASSERT(offsetof(struct entry, payload) == ENTRY_HEAD_BYTES);
LAYOUT_ASSERT(SEG_GATES % 64 == 0 && SEG_LINES % PAGE_BYTES == 0);
LAYOUT_ASSERT(SEG_FIXED_END % PAGE_BYTES == 0);
/* whatever the limits let through fits the larger size */
LAYOUT_ASSERT(LARGE_PAYLOAD >= ENQ_NAME_BYTES + ENQ_KEY_BYTES +
        ENQ_OWNER_BYTES + ENQ_ID_BYTES + sizeof(uint32_t) + ENQ_PEER_BYTES);

#endif
