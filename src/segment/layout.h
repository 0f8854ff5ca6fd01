/*
 * layout.h - segment: every byte of a segment. No other file knows an offset.
 *
 *	offset 0        header            one page
 *	SEG_THREADS     thread slots      THREADS_MAX x 320 B   (sparse)
 *	SEG_SESSIONS    session slots     SESSIONS_MAX x 256 B  (sparse)
 *	SEG_GATES       gates             GATES x 64 B
 *	SEG_SHARDS      shards            SHARDS_ALL x 64 B
 *	SEG_OWNERS      owners that wait  OWNER_WORDS x 4 B
 *	SEG_LISTINGS    lists of a name   LISTINGS x 4,160 B
 *	SEG_BUCKETS     first segments    SHARDS_ALL x a quarter of a page
 *	SEG_DIRS        their segments    SHARDS_ALL x 4 KiB    (sparse)
 *	h->pages_at     page directory    pages_max x 8 B       (sparse)
 *	behind it       marks of pages    pages_max x 4 B       (sparse)
 *	h->arena_at     pages             pages_max x 4 KiB     (sparse)
 *
 * The file is as long as it may ever become, but sparse: what is used has
 * been taken with posix_fallocate first, so that a full tmpfs is an error and
 * not a SIGBUS. Each process maps it once, whole, at an address of its own; so
 * it holds offsets and no pointers. (The one exception is what glibc writes
 * into the liveness mutexes: the links of each thread's own robust list.)
 *
 * Two sizes of offset: a byte offset (uint64_t) in the header only, and a
 * `ref` (uint32_t) everywhere else: a byte offset divided by 64. 0 is none.
 *
 * Three kinds of field:
 *
 *	TRUE	what recovery starts from: it must be right after any death
 *	DERIVED	what recovery makes anew from that (recovery/README.md)
 *	hint	may be wrong at any time: it only saves or causes a look
 *
 * Any process that may write here may write anything. So no field is trusted:
 * refs pass through the at_*() functions of map.h, lengths and counts are
 * checked against what there is room for.
 *
 * Structs that different CPUs write are 64 bytes, or have that many bytes
 * between them: one cache line for each latch and what it guards. A bucket is
 * one: latch, newest token and objects, so that a pair touches no other line
 * that others write.
 *
 * A change of any byte that an existing segment has takes LAYOUT_VERSION + 1.
 */
#ifndef SEGMENT_LAYOUT_H
#define SEGMENT_LAYOUT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "enq.h"

#define LAYOUT_MAGIC UINT64_C(0x314b434f4c514e45) /* "ENQLOCK1" */
#define LAYOUT_VERSION 25

#define PAGE_BYTES 4096u /* of ours; the kernel's may be larger */
#define UNIT_BYTES 64u
#define UNITS_PER_PAGE (PAGE_BYTES / UNIT_BYTES)

#define THREADS_MAX 16384u /* two of each process that calls from one */
#define SESSIONS_MAX 8192u
#define GATES 1024u
#define SHARDS 256u   /* of keys */
#define ID_SHARDS 16u /* of ids that callers brought */
#define SHARDS_ALL (SHARDS + ID_SHARDS)

#define OWNER_WORDS 131072u /* for owners that wait: see store/owners.h */
#define OWNER_LINE 16u

#define LISTINGS 2u /* lists of a name at once that keep nobody waiting */
#define LIST_CELLS_A_SHARD 128u
#define LIST_CELLS (SHARDS * LIST_CELLS_A_SHARD)

#define BUCKET_SLOTS 8u
#define BUCKETS_PER_SEGMENT (PAGE_BYTES / 64u)
#define BUCKETS_FIRST (BUCKETS_PER_SEGMENT / 4) /* empty space below 1 MiB */
#define SEGMENTS_MAX 1024u /* of buckets, per shard: 67 M objects, 4 M ids */
#define BUCKET_LOAD 2u     /* objects per bucket before more are used, */
#define BUCKET_FILL 3u     /* and with how many a full table makes do */

#define SLOTS_DEFAULT 10000000u
#define SLOTS_MAX 100000000u

typedef uint32_t ref_t;         /* byte offset / 64; 0 = none */
typedef uint32_t thread_ref_t;  /* thread slot | generation; 0 = none */
typedef uint32_t session_ref_t; /* session slot | generation; 0 = none */

#define THREAD_BITS 14
#define THREAD_MASK ((1u << THREAD_BITS) - 1)
#define THREAD_GENERATIONS                                                     \
    (1u << (31 - THREAD_BITS)) /* bit 31 of a latch is WAITERS */
#define SESSION_BITS 13
#define SESSION_MASK ((1u << SESSION_BITS) - 1)
#define SESSION_GENERATIONS (1u << (32 - SESSION_BITS))

/* Hints: slabs of one size that nobody owns, worth a look. */
struct orphans {
    uint32_t pages;  /* how many, or less */
    uint32_t at;     /* where to go on looking */
    uint32_t missed; /* pages in a row that were none of them */
    uint32_t known;  /* `pages` before the first of those */
};

/* --- header ---
 * Everything up to `checksum` is written once, before the segment has a name:
 * read without a latch and without order. The rest has one cache line for each
 * latch, and what that guards.
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

    /* line: recovery. Taken over from a dead recovering thread as it is. */
    uint32_t recovery_latch;
    uint32_t remade; /* counts recoveries that have begun to clear buckets */
    uint32_t pad1[14];

    /* line: registry. The first two under map_registry_lock(), stored with
       release once the slots below have memory; the hints by swaps. */
    uint32_t threads_high; /* slots ever used: walks end here */
    uint32_t sessions_high;
    int64_t leases_due_ns; /* hint: when the first lock that outlived its
                              session runs out, or before; 0 = none */
    uint32_t listeners;    /* hint: sessions that listen */
    uint32_t left;         /* hint: counts sessions that have ended and left
                              behind locks that they held for their peers */
    uint32_t pad2[10];

    /* line: growth. The latch guards claiming of pages. */
    uint32_t grow_latch;
    uint32_t pages_ready; /* TRUE: so many have memory behind them */
    /* DERIVED from the directory; both in one store */
    uint32_t pages_used; /* walks end here */
    uint32_t slab_pages;
    uint32_t wanted; /* futex: how often a session looked for room in vain */
    uint32_t given;  /* futex: how often another gave room back after that */
    struct orphans orphans[2]; /* small, large */
    uint32_t pad3[2];

    /* line: the newest ticket, order of arrival. Only waiters draw one, so
       that uncontended locks share no line. */
    uint64_t ticket;
    uint32_t owners_untold; /* hint: requests of owners that found no word */
    uint32_t pad4;
    int64_t searched_ns;      /* hint: see wait/suspicion.c */
    uint32_t generic_waiters; /* hint: requests of many objects that wait */
    uint32_t pad5[9];

    /* what thread slots of the past had counted; added to atomically */
    uint64_t retired[32];
    char overflow_owner[ENQ_OWNER_BYTES]; /* that met the full table last */
};

/* --- threads and sessions ---
 * A slot is in use while `ref` is not 0. It is claimed under the registry lock:
 * `life` first, the other fields, and `ref` last (release; partners: look() in
 * sync/life.c, and all readers of the other fields). `life` is locked once, by
 * the thread that registers, and never by any other; its futex word, which the
 * kernel marks, is the liveness word.
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

/* The process that has the slot, so that others can prove that it has ended;
   and what they know of that. The first three fields are written before `ref`,
   the rest by any process that looks. See sync/ended.h. */
struct process {
    uint32_t pid;       /* in its own PID namespace */
    uint32_t pid_space; /* that namespace's inode; 0 = not known */
    uint64_t lock_at;   /* the byte of the file that is locked as long as its
                           memory is there (segment/tie.h); 0 = none */
    int64_t dying_ns;   /* hint: first seen to be dying then; 0 = never */
    int64_t look_ns;    /* hint: its end was last looked for then */
    uint32_t over;      /* the slot's ref: the end of that use is proved. Stored
                           with release; partner: session_is_over() */
    uint32_t pad;
};

/* thread_slot.telling: noted before the latches are released under which an entry
   was changed, and read when its thread is dead (recovery/recover.c). */
#define TELLING_FEW 4
#define TELLING_MANY UINT32_MAX /* of more than those */

struct thread_slot {
    pthread_mutex_t life; /* TRUE */
    thread_ref_t ref;     /* TRUE: the thread that uses it; 0 = free */
    uint32_t generation;  /* of the last use */
    thread_ref_t keeper;  /* TRUE: its process's helper thread, or 0 */
    session_ref_t set_of; /* TRUE while `set` is: the set's session */
    uint32_t pad1[2];
    uint64_t counts[COUNTERS]; /* written by its thread only; of a free slot:
                                  its last one's */
    uint64_t set;    /* TRUE: ticket of the lock set that it is taking, under
                         all latches; 0 = none. See store/journal.h */
    uint64_t inside; /* the bucket whose latch it may hold: INSIDE_... */
    ref_t in_hand;   /* the entry that it may have changed, or taken out of its
                        ring; 0 = none since it has acquired a gate's latch */
    uint32_t splits; /* while `inside` is INSIDE_SPLIT(): into this bucket */
    struct process process; /* TRUE */

    /* line: for the wait-for graph (wait_graph.h), so that who reads it of all
       threads reads these lines alone. Hints. */
    uint64_t waiting; /* handle of its own request that waits, or is about to */
    uint64_t waiting_owner; /* while that is not 0: whose it is, as a number */
    uint64_t
        shards[SHARDS / 64];    /* while `inside` is INSIDE_SEVERAL: of these */
    ref_t telling[TELLING_FEW]; /* entries of which it has yet to tell */
};

/* thread_slot.inside: a hash that leads to the bucket; or one of these. Stored
   before any latch of a bucket is acquired, and read when its thread is dead
   (recovery/mend.h). */
#define INSIDE_NONE 0
#define INSIDE_MANY UINT64_MAX          /* what they lead to may be nowhere */
#define INSIDE_SEVERAL (UINT64_MAX - 1) /* of `shards`; their latches tell */
#define INSIDE_SPLIT(shard) (UINT64_MAX - 2 - (shard)) /* one; see `splits` */

#define NOTIFICATIONS_KEPT 14

enum session_state {
    SESSION_FREE,
    SESSION_LIVE,
    SESSION_ENDING, /* being closed: all that ends with it has ended */
};

struct session_slot {
    pthread_mutex_t life; /* TRUE; held by the process's helper thread */
    session_ref_t ref;    /* TRUE */
    uint32_t generation;
    uint32_t state;      /* enum session_state */
    thread_ref_t keeper; /* TRUE: its process's helper thread, or 0 */
    uint8_t uuid[16];
    uint32_t loose;   /* hint: entries of its slabs that others have freed */
    uint32_t adopted; /* it may hold entries in slabs of other sessions */
    struct process process; /* TRUE */
    uint32_t heirs; /* TRUE: there is a descriptor that keeps it: heirs.h */
    uint32_t pad0;

    /* lines: how its helper is told of changes (store/notify.h); written by any
       process, apart from the lines above, which are read all the time */
    uint32_t notifications; /* how many there were; a futex */
    uint32_t asleep;        /* the helper is, or is about to be, asleep */
    uint32_t listens;       /* it wants to hear of its held locks as well */
    uint32_t started;       /* hint: its requests that wait without a thread */
    uint64_t notification[NOTIFICATIONS_KEPT]; /* number << 32 | ref; hints */
};

/* --- gates and shards ---
 * What a latch guards is in the same line. `raised` is changed under the gate's
 * latch, and read without it under a bucket's: lock/scope.h says why that is
 * enough.
 */
struct gate {
    uint32_t latch;
    uint32_t raised;    /* DERIVED: generic entries, and requests under way;
                           | GATE_LISTED() */
    ref_t head;         /* DERIVED: its generic entries, in a ring */
    uint32_t n_waiting; /* DERIVED: of these */
    uint64_t token;     /* at least that of its generic grants */
    uint32_t n_queued;  /* requests of its names that wait, or more; atomic */
    uint32_t spare[9];
};

/* In `raised`, hints: a list of one of the gate's names is made by that listing.
   Lost by a recovery, which the list finds out. */
#define GATE_LISTED(listing) (0x80000000u >> (listing))
#define GATE_COUNT (0x80000000u / (1u << (LISTINGS - 1)) - 1)

/* A list of one name that is being made: which cells have changed since it
   looked there. A cell is what so many bits of a key's hash have in common, its
   shard and the end of its bucket's number. See lock/listing.h. */
struct listing {
    thread_ref_t by; /* whose it is; 0 = free, or a dead thread's: the same */
    uint32_t gate;   /* that may have its GATE_LISTED() */
    uint32_t pad[14];
    uint64_t cells[LIST_CELLS / 64]; /* hint: too many cost a look */
};

/* Of keys: the latch guards the number of its buckets, and each bucket has a
   latch of its own. Of ids: the latch guards the buckets as well. All but the
   latch is read by each request and written by few. */
struct shard {
    uint32_t latch;
    uint32_t n_buckets; /* in use: linear hashing; | SHARD_EMPTY */
    uint32_t n_segments;
    uint32_t cramped; /* hint: wants more buckets */
    uint64_t ceiling; /* TRUE: none of its buckets has given a token above */
    uint32_t calm;    /* hint: how rarely it is looked for crowds: grow.h */
    uint32_t pad;
    uint64_t spare[4];
};

/* Of keys: none of its buckets has an object, nor a request that has seen a gate
   down. Whoever latches one takes that back before it reads a gate. In this word
   as each request reads it anyway, before and behind its latch. */
#define SHARD_EMPTY 0x80000000u

/* A page of buckets is one segment: the ref of its first bucket. The shard's
   first segment is a quarter of a page at SEG_BUCKETS, where no ref need be
   looked up: index 0 is not used. Appended under the shard's latch, never taken
   away. */
struct shard_dir {
    ref_t segment[SEGMENTS_MAX];
};

/* One cache line answers "is there an object with this hash?", and has the
   latch that guards the object. The tag is 8 bits of the name's hash and 7 of
   the key's, so that a generic request finds the keys of a name without a look
   at other entries. DERIVED but for latch and token. See store/index.h. */
struct bucket {
    uint32_t latch; /* of keys; of ids: not used */
    ref_t more;     /* objects that found no slot, by entry.spill */
    uint64_t token; /* TRUE: the newest given to a key of this bucket */
    ref_t ref[BUCKET_SLOTS];    /* first entry of the object's ring */
    uint16_t tag[BUCKET_SLOTS]; /* 0 = empty */
};

/* --- pages and entries ---
 * The page directory has one page_info for each page of the arena. It is TRUE,
 * and always read and written as one 64-bit word: one store claims a page or
 * gives it up. See store/page.h.
 */
enum page_kind {
    PAGE_FREE,
    PAGE_SMALL,   /* a slab of 21 entries of 192 bytes */
    PAGE_LARGE,   /* a slab of 3 entries of 1,344 bytes */
    PAGE_BUCKETS, /* buckets; owner = shard */
};

struct page_info {
    uint32_t owner; /* session_ref_t of the slab; 0 = orphan */
    uint32_t kind;
};

/* Of each page: did a started request begin to wait there since the last look
   that found none? 0: no; PAGE_MARKED: yes; else the thread that has looked last.
   DERIVED: one too many costs a look. See store/mark.h. */
typedef uint32_t page_mark_t;
#define PAGE_MARKED UINT32_MAX

#define DIRECTORY_BYTES (sizeof(struct page_info) + sizeof(page_mark_t))

#define SMALL_UNITS 3u
#define LARGE_UNITS 21u
#define SMALL_PER_PAGE 21u
#define LARGE_PER_PAGE 3u
#define ENTRY_HEAD_BYTES 112u
#define SMALL_PAYLOAD (SMALL_UNITS * UNIT_BYTES - ENTRY_HEAD_BYTES)
#define LARGE_PAYLOAD (LARGE_UNITS * UNIT_BYTES - ENTRY_HEAD_BYTES)

/* The first unit of a slab page is kept free of entries: an entry's unit
   within its page is then 1, 4, 7, ... whatever its size. */

/*
 * entry.state: its generation (32 bits), notes, why it is gone, mode, phase.
 * Phase and the rest change together, in one store, which is the commit of a
 * transition; notes are added and taken away by swaps, without a latch too.
 */
enum phase {
    PHASE_FREE,    /* a thread of the slab's owner may take it */
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
    GONE_GIVEN, /* given back by another session: the holder is told of that */
    GONE_REASONS,
};

#define STATE_PHASE(s) ((unsigned)(s)&0xfu)
#define STATE_MODE(s) ((unsigned)((s) >> 4) & 0xfu)
#define STATE_GONE(s) ((unsigned)((s) >> 8) & 0xfu)
#define STATE_RETRY UINT64_C(0x1000) /* waiter: it is to try for itself */
#define STATE_ASKED UINT64_C(0x2000) /* held: a request waits for it */
#define STATE_TOLD UINT64_C(0x4000)  /* its session knows: asked, or gone */
#define STATE_NEAR UINT64_C(0x8000)  /* it knows that the ttl ends soon */
/* it knows that the lock has ended; the lock delay goes on */
#define STATE_ENDED UINT64_C(0x10000)
#define STATE_FIRST UINT64_C(0x20000)  /* RETRY, with no waiter before it */
#define STATE_SOONER UINT64_C(0x40000) /* waiter: looks again before sleep */
#define STATE_CYCLE UINT64_C(0x80000) /* waiter: it is in one, and shall look */
#define STATE_AWAITED UINT64_C(0x100000) /* held: counted (store/owners.h) */
#define STATE_NOTES                                                            \
    (STATE_RETRY | STATE_ASKED | STATE_TOLD | STATE_NEAR | STATE_ENDED |       \
        STATE_FIRST | STATE_SOONER | STATE_CYCLE | STATE_AWAITED)
/* what its session has been told; it goes when another has the lock */
#define STATE_HEARD (STATE_NOTES & ~STATE_AWAITED)
#define STATE_GENERATION(s) ((uint32_t)((s) >> 32))
#define STATE(generation, phase, mode, gone)                                   \
    ((uint64_t)(generation) << 32 | (uint64_t)(gone) << 8 |                    \
        (uint64_t)(mode) << 4 | (uint64_t)(phase))

/* What is to be woken when a waiting entry changes. From LOOKING on its waiter
   does not know yet what became of it. */
enum asleep {
    ASLEEP_NOBODY,  /* nothing: there is no waiter, or it knows */
    ASLEEP_LOOKING, /* nothing: its thread is awake, and will look */
    ASLEEP_THREAD,  /* its thread is, or is about to be, in futex_waitv */
    ASLEEP_BEHIND,  /* the same, for long: it is told when the waiter ahead of
                       it leaves the queue (transition_tell()) */
    ASLEEP_STARTED, /* an async request: the session's helper. From this value
                       on: its number in the attachment, plus this */
};

/* How a thread sleeps is said together with which one: when it takes that back
   the entry may be another waiter's (entry_stirs()). */
#define ASLEEP_BY_THREAD 0x40000000u
#define ASLEEP_BY(ref, how)                                                    \
    (ASLEEP_BY_THREAD | ((ref)&THREAD_MASK) << 2 | (uint32_t)(how))
#define ASLEEP_HOW(word) ((word)&ASLEEP_BY_THREAD ? (word)&3u : (word))

/*
 * The record of a request, waiting or held. Guarded by its bucket's latch
 * (generic ones: the gate's), and by the gate's as well where it overlaps a
 * generic one.
 * TRUE but for the links; `state` is stored last (release): that store is the
 * commit, and the partner of every acquire load of a state. A waiter sleeps on
 * the low half of `state`. store/entry.h says what may be read without a latch.
 */
struct entry {
    uint64_t state;
    union {
        uint64_t token;       /* held, and after: of its last grant */
        uint64_t next_member; /* waiting, of a set: ref of the next, a ring */
        uint64_t witness; /* waiting, of none: hint, see conflict_is_known() */
    };
    union {
        int64_t deadline_ns;    /* held: end of its ttl; INT64_MAX = none */
        struct {                /* waiting: */
            uint32_t window_ns; /* from since_ns on: its bypass window (R7) */
            uint32_t queue; /* DERIVED: the last of its ring's queue: how many
                               wait there, | QUEUE_SETS */
        };
    };
    int64_t since_ns; /* granted, or queued while waiting; or GONE since */
    union {
        uint64_t ticket; /* order of arrival, one for a set; 0: never waited */
        uint64_t heir;   /* adopted (ENTRY_HEIR): HEIR_BIT | for whom */
    };
    int64_t ttl_ms;   /* as asked for; < 0 = none */
    uint64_t hash;    /* of its key; generic: DERIVED, the key's digest */
    uint64_t id_half; /* of the session that made it (base/id.h) */
    session_ref_t session;
    ref_t next, prev; /* DERIVED: ring of its object or gate */
    ref_t spill;      /* DERIVED: next object that found no slot in a bucket */
    ref_t id_spill;   /* DERIVED: the same among ids */
    uint32_t asleep;  /* ASLEEP_BY, or enum asleep: how its waiter is woken */
    uint32_t pid;
    uint32_t name_hash; /* decides its gate */
    uint16_t name_bytes, field_bytes, owner_bytes, id_bytes;
    uint16_t generic, literal;
    uint8_t fields, on_death; /* enum enq_death | flags */
    union {
        uint8_t taker_bytes; /* GONE_LOST: its new owner, behind all else */
        uint8_t ring_modes;  /* DERIVED: live, the first of its ring: what that
                                holds (RING_HOLDS); 0: not known */
    };
    uint8_t cpu; /* hint: where its waiter was last seen; 0: it never waited */
    char payload[];
};

/*
 *	| name | fields | owner | id | delay | peer | taker |
 *	  2..    0..      1..     0..  4 B     2..    GONE_LOST: taker_bytes
 *
 * The payload: each text with its terminating zero; the id only if its caller
 * brought one. Flags of on_death say whether there is a lock delay
 * (ENTRY_DELAYS, in ms) and a peer (ENTRY_PEER). ENTRY_SET says that the entry
 * is one of a lock set, or was while it waited.
 *
 * ENTRY_HEIR: the lock was adopted for a peer. There may be no room for a text,
 * so the peer is a number (enq_adopt_for), which takes the place of the ticket:
 * a held lock needs none any more. Its highest bit is set (HEIR_BIT), so that
 * it is no ticket of any request.
 */
#define ENTRY_DELAYS 0x80u
#define ENTRY_SET 0x40u
#define ENTRY_PEER 0x20u
#define ENTRY_HEIR 0x10u
#define ENTRY_FOR_OTHERS (ENTRY_PEER | ENTRY_HEIR)
#define HEIR_BIT (UINT64_C(1) << 63)

#define QUEUE_SETS 0x80000000u /* some of them may be of lock sets */

#define RING_HOLDS(mode) (1u << (mode))
#define RING_MIXED 0x80u /* of more than one owner */

#define ENTRY_DEATH(on_death) ((unsigned)(on_death)&0x0fu)

/* --- where things are --- */
#define SEG_THREADS ((uint64_t)PAGE_BYTES)
#define SEG_SESSIONS (SEG_THREADS + THREADS_MAX * sizeof(struct thread_slot))
#define SEG_GATES (SEG_SESSIONS + SESSIONS_MAX * sizeof(struct session_slot))
#define SEG_SHARDS (SEG_GATES + GATES * sizeof(struct gate))
#define SEG_OWNERS (SEG_SHARDS + SHARDS_ALL * sizeof(struct shard))
#define SEG_LISTINGS (SEG_OWNERS + OWNER_WORDS * sizeof(uint32_t))
#define SEG_BUCKETS_RAW (SEG_LISTINGS + LISTINGS * sizeof(struct listing))
#define SEG_BUCKETS                                                            \
    ((SEG_BUCKETS_RAW + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
#define SEG_DIRS (SEG_BUCKETS + (uint64_t)SHARDS_ALL * BUCKETS_FIRST * 64)
#define SEG_FIXED_END (SEG_DIRS + SHARDS_ALL * sizeof(struct shard_dir))

#define LAYOUT_ASSERT(x) _Static_assert(x, #x)
LAYOUT_ASSERT(sizeof(struct seg_header) <= PAGE_BYTES);
LAYOUT_ASSERT(THREADS_MAX <= 1u << THREAD_BITS);
LAYOUT_ASSERT(SESSIONS_MAX <= 1u << SESSION_BITS);
LAYOUT_ASSERT(ASLEEP_STARTED == 4 && SLOTS_MAX < ASLEEP_BY_THREAD);
LAYOUT_ASSERT(offsetof(struct seg_header, checksum) == 160);
LAYOUT_ASSERT(offsetof(struct seg_header, recovery_latch) == 256);
LAYOUT_ASSERT(offsetof(struct seg_header, threads_high) == 320);
LAYOUT_ASSERT(offsetof(struct seg_header, grow_latch) == 384);
LAYOUT_ASSERT(offsetof(struct seg_header, pages_used) == 392);
LAYOUT_ASSERT(offsetof(struct seg_header, slab_pages) == 396);
LAYOUT_ASSERT(offsetof(struct seg_header, ticket) == 448);
LAYOUT_ASSERT(offsetof(struct thread_slot, counts) == 64);
LAYOUT_ASSERT(offsetof(struct thread_slot, waiting) == 256);
LAYOUT_ASSERT(sizeof(struct thread_slot) == 320);
LAYOUT_ASSERT(sizeof(struct process) == 40);
LAYOUT_ASSERT(sizeof(struct session_slot) == 256);
LAYOUT_ASSERT(offsetof(struct session_slot, notifications) == 128);
LAYOUT_ASSERT(sizeof(struct gate) == 64);
LAYOUT_ASSERT(sizeof(struct listing) == 4160);
LAYOUT_ASSERT(GATE_COUNT > SLOTS_MAX &&
    (GATE_COUNT & GATE_LISTED(LISTINGS - 1)) == 0);
LAYOUT_ASSERT(sizeof(struct shard) == 64);
LAYOUT_ASSERT(sizeof(struct bucket) == 64);
LAYOUT_ASSERT(offsetof(struct bucket, tag) % 16 == 0); /* one vector */
LAYOUT_ASSERT(sizeof(struct page_info) == 8);
LAYOUT_ASSERT(DIRECTORY_BYTES == 12);
LAYOUT_ASSERT((THREAD_GENERATIONS << THREAD_BITS) - 1 < PAGE_MARKED);
LAYOUT_ASSERT(offsetof(struct entry, payload) == ENTRY_HEAD_BYTES);
LAYOUT_ASSERT(SEG_GATES % 64 == 0 && SEG_BUCKETS % PAGE_BYTES == 0);
LAYOUT_ASSERT(SEG_DIRS % PAGE_BYTES == 0 && SEG_FIXED_END % PAGE_BYTES == 0);
/* any request within the limits fits a large entry */
LAYOUT_ASSERT(LARGE_PAYLOAD >= ENQ_NAME_BYTES + ENQ_KEY_BYTES +
        ENQ_OWNER_BYTES + ENQ_ID_BYTES + sizeof(uint32_t) + ENQ_PEER_BYTES);

#endif
