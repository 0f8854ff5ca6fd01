/*
 * client.h - remote: an attachment to a bridge, and who may touch what.
 *
 *	callers' threads                  the reader, one thread an attachment
 *	lock.c, hold.c, look.c --> call.c ----> socket
 *	                             ^            | by who has the baton: a
 *caller |            v that waits, else the reader sleeps on its call <-----
 *call.c <-- hear.c --> held.c --> news.c
 *
 * A call is a request that has not been answered. It keeps its bytes until
 * then: after the connection was lost they are sent again, with the same
 * reqUUID and in the same order, and the bridge does nothing twice. So neither
 * a lost request nor a lost reply loses or doubles a lock.
 *
 * Two mutexes. `mutex` guards calls, what is to be written, the phase, and
 *whose turn it is to read (baton.c); the descriptor is written to under it, and
 *read without it. `held.mutex` guards the held locks and the news of them, and
 *is taken last. Nobody sleeps with either.
 */
#ifndef REMOTE_CLIENT_H
#define REMOTE_CLIENT_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/heap.h"
#include "remote/address.h"
#include "remote/map.h"
#include "remote/remote.h"
#include "wire/scan.h"
#include "wire/text.h"

struct answer;

/* How long a call waits beyond what it may wait at the bridge. */
#define SLACK_MS 5000
/* ... and one that looks at the whole table. */
#define SLACK_LOOK_MS 60000

/* So many that the bridge may have done are unanswered at once: it remembers
   the last 64 that it has done. */
#define WINDOW 64u

/* --- calls --- */

enum call_phase {
    CALL_UNSENT,
    CALL_SENT,
    CALL_PENDING, /* a started one: its result comes as an event */
    CALL_TAKING,  /* its answer is being read, without the mutex */
    CALL_DONE,
};

struct call;
typedef void call_take_fn(struct remote *r, struct call *c,
    const struct answer *a);

struct call {
    struct map_node by_number;
    struct cds_list_head node; /* of remote.unsent or .sent */
    enum call_phase phase;
    struct text ask;
    uint64_t number;
    size_t wait_at;    /* of its waitTime in the text; 0: none, or for ever */
    mono_t wait_ends;  /* at the bridge */
    bool waits;        /* may be unanswered for long: not of the window */
    bool locks;        /* what it gets is given back when nobody wants it */
    bool started;      /* part of a struct started */
    bool abandoned;    /* nobody wants its answer any more */
    bool posted;       /* nobody waits for it: freed when it is done */
    bool again;        /* it was sent more than once */
    bool cancelled;    /* the bridge has said so: it is not asked for again */
    mono_t sent_at;    /* before the bridge had it: the begin of a ttl */
    mono_t put_at;     /* the same, of the last time that it was sent */
    mono_t waited_at;  /* until then, at least, on connections before this */
    enq_handle handle; /* what it is about */
    uint64_t token;
    int64_t ttl_ms;
    call_take_fn *take; /* what is done with the answer; NULL: nothing */
    void *to;           /* for take */
    int result;
    char why[512];
    pthread_cond_t done;
    struct cds_list_head asleep; /* of remote.sleepers, while its caller is */
};

/* --- held locks --- */

enum news_kind {
    NEWS_BLOCKING = 1,
    NEWS_EXPIRING = 2,
    NEWS_GONE = 4,
    NEWS_RESULT = 8,
    NEWS_SESSION = 16,
};

/* What is told by enq_next(). It lies in what it is about: none can be lost
   for want of memory. */
struct news {
    struct cds_list_head node; /* of held.news; or alone */
    uint32_t kinds;            /* several of a lock: told one by one */
    bool held_back;            /* until the result of its request is told */
};

struct held {
    struct map_node by_handle;
    struct cds_list_head node;  /* of held.locks or held.gone */
    struct cds_list_head doubt; /* of held.doubts; or alone */
    struct news news;
    struct heap_node beat; /* when to renew it next */
    int64_t beat_ms;       /* 0: never */
    enq_handle handle;
    uint64_t token;
    mono_t ends;      /* by our clock: not after the bridge's */
    mono_t ends_late; /* nor before it */
    int64_t ttl_ms;
    uint8_t on_death;
    bool suspect; /* its session may have been over since it was asked for */
    int result;   /* ENQ_OK: it is ours; else why not */
    char asker[ENQ_OWNER_BYTES]; /* who waits for it */
    char taker[ENQ_OWNER_BYTES]; /* who has it */
};

struct held_all {
    pthread_mutex_t mutex;
    struct number_map by_handle;
    struct cds_list_head locks, gone, doubts, news;
    size_t n_gone, n_suspect;
    struct heap beats;
    struct news session; /* connected, disconnected */
    int session_result;
    int fd; /* of enq_fd(); -1: nobody listens */
};

/* What locks were asked with, and where the answer goes. */
struct want {
    int64_t ttl_ms, beat_ms;
    uint8_t on_death;
    bool is_event; /* that it was granted is one */
};

struct order {
    size_t n;
    bool set;
    struct enq_grant *grants;
    struct want *want;
};

/* A request that was started: its result is an event. */
struct started {
    struct call call; /* the first */
    struct news news;
    struct order order;         /* of memory of its own, behind this */
    struct enq_grant *callers;  /* of a set until its result is taken */
    bool is_pending;            /* its caller is to be told so */
    bool is_told;               /* he was: its result is an event from now */
    struct enq_blocker blocker; /* of that moment */
    uint32_t index;             /* whose it is, of a set */
};

/* --- the session --- */

/* Until when it cannot be over (sure.c). */
struct sure {
    int64_t grace_ms; /* as the bridge says; atomic */
    mono_t at;        /* a request that was answered had been sent then */
    mono_t lost_at;   /* the same, when the connection before this was lost */
    int64_t until_ns; /* atomic */
    bool suspect;     /* the reader's own: it has told so */
};

/* --- the attachment --- */

enum link_phase {
    LINK_DOWN,
    LINK_GREETING, /* hello was sent */
    LINK_UP,
    LINK_OVER, /* it was closed, or never came to be */
};

struct remote {
    uint64_t life;
    struct address address;
    char name[320]; /* of the address, for texts */
    char owner[ENQ_OWNER_BYTES];
    char *secret; /* or NULL */
    int64_t grace_ms;
    struct cds_list_head all; /* of those of this process: see fork.c */
    pthread_t reader;

    pthread_mutex_t mutex;
    pthread_cond_t turn; /* of the phase */
    enum link_phase phase;
    int fd;       /* -1: none; changed by the reader only */
    bool reading; /* somebody has the baton */
    bool deaf;    /* the reader must be rung for when nobody reads */
    bool lost;    /* who read has seen the end of the connection */
    uint32_t n_readings;
    struct cds_list_head sleepers; /* callers who wait and do not read */
    uint32_t n_links;              /* connections so far */
    uint64_t hello;                /* the number of its hello */
    mono_t greeted_at;             /* when that was sent */
    struct text out;
    size_t out_at;
    bool stuck;   /* the reader goes on writing when the socket can */
    bool leaving; /* no other connection */
    bool closing; /* nor this one */
    uint64_t n_calls;
    struct number_map calls; /* by number */
    struct cds_list_head unsent, sent;
    uint32_t n_window;
    int fault; /* why there is no connection, negative */
    char fault_why[160];
    char session[64]; /* "": none yet */
    int64_t keepalive_ms, request_bytes, list_entries;
    mono_t said_at; /* the last bytes that we sent */

    mono_t heard_at; /* changed by who has the baton */

    struct sure sure;

    struct held_all held;

    /* of who has the baton */
    struct text in;
    struct scan_value *values;
    size_t n_values;
    struct frame frame;

    /* the reader's own */
    int bell;
    uint32_t n_seen; /* of n_readings */
    mono_t pinged_at;
    uint64_t dice;
    int64_t pause_ms;
};

/* --- call.c --- */

/* Begins the text of a call. */
void call_begin(struct call *c, const char *op);
/* One of its own memory; NULL: there is none. */
struct call *call_new(const char *op);

/*
 * Asks, and waits for the answer: its result, explained. The call is ended, or,
 * when the answer does not come in time, a copy of it goes on without us.
 *
 * @wait_ms   that it may take at the bridge; ENQ_FOREVER
 * @slack_ms  and beyond that
 */
int call_ask(struct remote *r, struct call *c, int64_t wait_ms,
    int64_t slack_ms);

/* The same of a started one: its ticket on ENQ_PENDING. */
int call_start(struct remote *r, struct call *c, int64_t wait_ms,
    uint64_t *ticket);

/* Asks; nobody waits for the answer. One of call_new()'s. */
void call_post(struct remote *r, struct call *c);

/* Posts an unlock for each lock that the answer tells: of what nobody wants.
   Without the mutex. */
void call_give_back(struct remote *r, const struct answer *a);

/* An answer has come: takes and leaves the mutex. By the reader. */
void call_answered(struct remote *r, const struct answer *a);

/* --- window.c: what is sent, and when; under the mutex --- */

void call_queue(struct remote *r, struct call *c);
void call_remove(struct remote *r, struct call *c);
void call_free(struct call *c);
/* Nobody will answer it: it is done. */
void call_fail(struct remote *r, struct call *c, int result, const char *why);
/* Sends what may be sent. */
void call_push(struct remote *r);
/* When it was not granted yet, as requests sent behind it were answered before,
   the last of them sent at @sure_at. */
mono_t call_waited_at(const struct call *c, mono_t sure_at);
/* The connection is a new one. */
void call_send_again(struct remote *r);
/* A started one is: its result is on its way, or lost with the bridge. */
void call_cancelled(struct remote *r, uint64_t number);
/* So is the session: who waits goes on in it, the rest is dropped. */
void call_forget_session(struct remote *r);
/* Writes what the socket takes. False: the connection is broken. */
bool call_flush(struct remote *r);

/* --- held.c --- */

bool held_begin(struct held_all *all);
void held_end(struct held_all *all);

/* When a ttl began: not before the one, nor after the other. */
struct since {
    mono_t least, most;
};

void held_add(struct remote *r, const struct enq_grant *g,
    const struct want *want, struct since since);
/* It is given back, or a call has told that it is gone: that is no news. */
void held_drop(struct remote *r, enq_handle handle, uint64_t token);
/* That is. */
void held_gone(struct remote *r, enq_handle handle, int result,
    const char *owner);
void held_told(struct remote *r, enq_handle handle, uint32_t kind,
    const char *owner);
void held_renewed(struct remote *r, enq_handle handle, mono_t since,
    int64_t ttl_ms);
/* Its grant has been told of: now it may be told what happens to it. */
void held_show(struct held_all *all, enq_handle handle);
void held_promoted(struct remote *r, enq_handle handle, uint64_t token);
/*
 * False: none that we know of. @result: ENQ_OK; why it is gone; ENQ_ELEASE: it
 * may be another's; ENQ_PENDING: its bridge knows.
 */
bool held_look(struct remote *r, enq_handle handle, int *result);
bool held_has(struct remote *r, enq_handle handle, uint64_t token);
/* The bridge has said so. */
void held_confirm(struct remote *r, enq_handle handle);

/* After a new connection: each is to be asked about; or the session is over.
   @suspect: until they have been they are. */
void held_doubt_all(struct remote *r, bool suspect);
bool held_has_suspects(struct remote *r);
void held_session_over(struct remote *r);
enq_handle held_next_doubt(struct remote *r); /* 0: none */
/* It could not be asked about. */
void held_doubt_again(struct remote *r, enq_handle handle);

enq_handle held_next_beat(struct remote *r, mono_t now); /* 0: none is due */
mono_t held_first_beat(struct remote *r);

/* --- news.c --- */

void news_add(struct held_all *all, struct news *news, uint32_t kind);
void news_show(struct held_all *all, struct news *news);
void news_drop(struct held_all *all, struct news *news);
void news_session(struct remote *r, int result);
void news_event(struct remote *r, const struct answer *a);
void news_result(struct remote *r, struct started *s);

/* --- sure.c --- */

void sure_begin(struct remote *r);
/* The answer to a hello that was sent then. Under the mutex, as the next two.
 */
void sure_greeted(struct remote *r, int64_t grace_ms, mono_t sent_at);
/* That to another request. */
void sure_answered(struct remote *r, mono_t sent_at);
/* The connection is lost. */
void sure_lost(struct remote *r);

/* May the session be over? By any thread. */
bool sure_is_over(const struct remote *r, mono_t now);
/* Its grace period is too short for us to know: the bridge is asked. */
bool sure_has_to_ask(const struct remote *r);
/* How often something is to be answered. Under the mutex. */
int64_t sure_ping_ms(const struct remote *r);

/* By the reader: tells when the session becomes suspect, and when it is ours
   again. Then: when to come back for that. */
mono_t sure_watch(struct remote *r, mono_t now);

/* --- hear.c --- */

/* Why there is no connection: under the mutex; the second takes it, and returns
   @rc. */
void remote_note(struct remote *r, int rc, const char *text);
int remote_broken(struct remote *r, int rc, const char *text);
/*
 * Reads once, with the baton. 0; -EAGAIN: nothing came; or why the connection
 * is over.
 *
 * @wait  for some time, if nothing is there: HEAR_MS (link.h), or less
 */
int remote_hear(struct remote *r, bool wait);

/* --- baton.c: who reads; under the mutex --- */

/* By a caller who waits. False: it is not his turn. */
bool baton_take(struct remote *r);
void baton_put(struct remote *r);
/* By who goes on without it: nobody who waits shall wait for nothing. */
void baton_offer(struct remote *r);
/* Who has it has seen the end of the connection: the reader is told. */
void baton_lost(struct remote *r);
/* By the reader: from now nobody has it until the next connection. */
void baton_withdraw(struct remote *r);

/* --- reader.c --- */

/* The answer to its hello. */
int remote_greeted(struct remote *r, const struct answer *a);

/* There is something for it to do. */
void remote_ring(struct remote *r);
void *reader_main(void *remote);

/* --- fork.c --- */

/* In a child of fork their descriptors are closed: else the bridge would take
   the child for the dead parent. */
int fork_begin(struct remote *r);
void fork_end(struct remote *r);
void fork_forget(struct remote *r);
void fork_opened(struct remote *r, int fd);
void fork_close(struct remote *r);

#endif
