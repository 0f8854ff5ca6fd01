/*
 * seat.h - what the files of the subject libenq share: a worker's
 * attachment with its one request, and the acts made of it.
 */
#ifndef BENCH_ENQ_SEAT_H
#define BENCH_ENQ_SEAT_H

#include "load/load.h"

struct space {
    char address[64];
    uint32_t strict;
    struct server bridge; /* where a scenario has one */
};

struct mine {
    struct enq *e;
    struct enq_req req;
    struct enq_grant grant;
    enq_handle held;
    char owner[24], field[24];
    struct enq_grant *generic; /* a bystander's '@' locks */
    uint64_t n_generic;
    struct enq_info *infos; /* room for a list */
    size_t n_infos;
    uint64_t turn;     /* which of those that wait in turn has the lock */
    int events;        /* what enq_fd() said */
    struct load *load; /* clients of a bridge, or NULL */
    struct enq *far;   /* the same space, by way of the bridge */
    int link;          /* to the bridge, or to node; 0: none */
    pid_t node;
};

int enq_failed(struct seat *s, const char *call, int rc);

int enq_arena_open(const struct trial *t, void **arena);
void enq_arena_close(const struct trial *t, void *arena);
int enq_attach(struct seat *s);
void enq_detach(struct seat *s);

int enq_take(struct seat *s);
int enq_give(struct seat *s);
int enq_pair_batch(struct seat *s, uint32_t n);
int enq_prepare_waiting(struct seat *s);
int enq_take_guarded(struct seat *s);
int enq_fight_batch(struct seat *s, uint32_t n);
int enq_hold_many(struct seat *s);
void enq_field_set(char *field, uint32_t key);
void enq_field_random(struct seat *s, char *field);
int enq_refused_as(struct seat *s, uint32_t n, int why);
int enq_refuse_batch(struct seat *s, uint32_t n);

/* table.c: what concerns the whole table. */
int enq_hold_victim(struct seat *s);
int enq_weigh_empty(struct seat *s);
int enq_prepare_list(struct seat *s);
int enq_list_batch(struct seat *s, uint32_t n);
int enq_list_none(struct seat *s, uint32_t n);
int enq_list_once(struct seat *s);
int enq_list_beside(struct seat *s);
int enq_prepare_wide(struct seat *s);

/* others.c: what others do meanwhile. */
int enq_arrange_generic(struct seat *s, bool base);
int enq_prepare_apart(struct seat *s);
int enq_queue_fill(struct seat *s, bool base);
int enq_queue_run(struct seat *s);
int enq_prepare_sessions(struct seat *s);

/* start.c: what does not block. */
int enq_start_batch(struct seat *s, uint32_t n);
int enq_start_once(struct seat *s);
int enq_prepare_events(struct seat *s);
int enq_start_guarded(struct seat *s);
int enq_start_guarded_batch(struct seat *s, uint32_t n);
int enq_weigh_pending(struct seat *s);
int enq_prepare_started(struct seat *s);
int enq_started_batch(struct seat *s, uint32_t n);

/* deadlock.c: owners that wait for each other. */
int enq_fight_blind(struct seat *s, uint32_t n);
int enq_prepare_deadlock(struct seat *s);
int enq_prepare_search(struct seat *s);
int enq_deadlock_batch(struct seat *s, uint32_t n);
int enq_deadlock_once(struct seat *s);
int enq_deadlock_busy(struct seat *s, uint32_t n);

/* remote.c: clients of a bridge. */
const char *enq_remote_declines(const struct trial *t);
int enq_bridge_start(struct space *space);
int enq_prepare_remote(struct seat *s);
int enq_remote_batch(struct seat *s, uint32_t n);

/* client.c: by what programs use. */
const char *enq_npm_declines(void);
int enq_prepare_npm(struct seat *s);
int enq_npm_batch(struct seat *s, uint32_t n);
int enq_npm_once(struct seat *s);
const char *enq_client_declines(void);
int enq_prepare_client(struct seat *s);
int enq_far_take(struct seat *s);
int enq_far_give(struct seat *s);
int enq_far_batch(struct seat *s, uint32_t n);
int enq_far_base(struct seat *s, uint32_t n);
void enq_client_end(struct mine *m);

/* scale.c: beside a lot of them. */
int enq_prepare_holders(struct seat *s);
int enq_prepare_cumulated(struct seat *s);
int enq_prepare_wide_apart(struct seat *s);
int enq_prepare_list_one(struct seat *s);
int enq_list_one_batch(struct seat *s, uint32_t n);
int enq_list_one_once(struct seat *s);
int enq_prepare_full(struct seat *s);
int enq_full_batch(struct seat *s, uint32_t n);
int enq_full_once(struct seat *s);
int enq_take_own(struct seat *s);
int enq_pool_batch(struct seat *s, uint32_t n);
int enq_pool_shared(struct seat *s, uint32_t n);

/* set.c: several locks as one. */
int enq_prepare_set(struct seat *s);
int enq_take_set(struct seat *s);
int enq_give_set(struct seat *s);
int enq_set_batch(struct seat *s, uint32_t n);
int enq_set_singly(struct seat *s, uint32_t n);

#endif
