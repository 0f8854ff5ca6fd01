/*
 * check_slab.c - where entries come from: limits of a table, large entries,
 * handles that are stale, slabs that the dead leave.
 */
#include "store/slab.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "unit.h"

static struct enq *open_for(uint32_t slots)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = slots, .owner = "me"};

    return unit_open_with(&opts);
}

/* Takes n locks of which the i-th has field i. */
static void take(struct enq *e, unsigned n, struct enq_grant *g)
{
    char field[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g[i]));
    }
}

static const char *long_text(char *text, size_t n)
{
    memset(text, 'x', n);
    text[n] = '\0';
    return text;
}

static const uint32_t slots_of[] = {21, 42, 210};

TEST(a_table_takes_as_many_locks_as_it_was_made_for)
{
    struct enq_grant g[210], more;
    struct enq *e = open_for(slots_of[_i]);
    char words[32];

    take(e, slots_of[_i] - 1, g);
    unit_healthy(e);
    want(ENQ_OK, unit_lock(e, "n", "last", ENQ_MODE_X, &g[slots_of[_i] - 1]));
    unit_healthy(e);
    snprintf(words, sizeof(words), " %u ", slots_of[_i]);
    for (int i = 0; i < 3; i++)
        want_why(ENQ_EFULL, unit_lock(e, "n", "more", ENQ_MODE_X, &more),
            words);
    unit_healthy(e);
    enq_close(e);
}

TEST(a_full_table_goes_on_when_one_lock_is_given_back)
{
    struct enq_grant g[210], more;
    unsigned n = slots_of[_i];
    struct enq *e = open_for(n);

    take(e, n, g);
    for (unsigned i = 0; i < n; i++) {
        want(ENQ_EFULL, unit_lock(e, "more", "x", ENQ_MODE_X, &more));
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
        want(ENQ_OK, unit_lock(e, "more", "x", ENQ_MODE_X, &more));
        want(ENQ_EFULL, unit_lock(e, "much more", "x", ENQ_MODE_X, &g[i]));
        want(ENQ_OK, enq_unlock(e, more.handle, more.token));
        want(ENQ_OK, unit_lock(e, "again", NULL, ENQ_MODE_S, &g[i]));
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(a_full_table_loses_nothing_and_counts_who_filled_it)
{
    struct enq_stats s = {.size = sizeof(s)};
    struct enq_grant g[42], more;
    struct enq *e = open_for(42);

    take(e, 42, g);
    want(ENQ_EFULL,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "greedy"),
            &more));
    want(ENQ_OK, enq_stat(e, &s));
    ck_assert_uint_eq(s.held, 42);
    ck_assert_uint_eq(s.overflows, 1);
    ck_assert_str_eq(s.overflow_owner, "greedy");
    for (int i = 0; i < 42; i++)
        want(ENQ_OK, enq_valid(e, g[i].handle));
    enq_close(e);
}

static void *give_back_one(void *arg)
{
    void **pair = arg;
    struct enq_grant *g = pair[1];

    want(ENQ_OK, enq_unlock(pair[0], g->handle, g->token));
    return NULL;
}

/* It lies in the magazine of the other thread, which may be gone. */
TEST(a_lock_that_another_thread_gave_back_makes_room)
{
    struct enq_grant g[21], more;
    struct enq *e = open_for(21);
    void *pair[2] = {e, &g[5]};
    pthread_t thread;

    take(e, 21, g);
    pthread_create(&thread, NULL, give_back_one, pair);
    pthread_join(thread, NULL);
    want(ENQ_OK, unit_lock(e, "n", "more", ENQ_MODE_X, &more));
    enq_close(e);
}

TEST(one_that_another_thread_gave_back_is_taken_before_a_new_page)
{
    struct enq_grant g[SMALL_PER_PAGE], more;
    struct enq *e = open_for(210);
    void *pair[2] = {e, &g[5]};
    pthread_t thread;

    take(e, LENGTH(g), g);
    ck_assert_uint_eq(e->session.n_pages, 1);
    pthread_create(&thread, NULL, give_back_one, pair);
    pthread_join(thread, NULL);
    want(ENQ_OK, unit_lock(e, "n", "more", ENQ_MODE_X, &more));
    ck_assert_uint_eq(e->session.n_pages, 1);
    pair[1] = &more; /* and again, at once */
    pthread_create(&thread, NULL, give_back_one, pair);
    pthread_join(thread, NULL);
    want(ENQ_OK, unit_lock(e, "n", "more", ENQ_MODE_X, &more));
    ck_assert_uint_eq(e->session.n_pages, 1);
    unit_healthy(e);
    enq_close(e);
}

static int fill_and_exit(void *e_parent)
{
    struct enq_grant g[42];

    (void)e_parent;
    take(open_for(42), 42, g);
    return 0;
}

TEST(slabs_of_a_dead_session_are_used_again)
{
    struct enq_grant g[42];
    struct enq *e;

    for (int i = 0; i < 5; i++)
        unit_join(unit_fork(fill_and_exit, NULL));
    e = open_for(42);
    eventually(unit_lock(e, "n", "0", ENQ_MODE_X, &g[0]) == ENQ_OK);
    want(ENQ_OK, enq_unlock(e, g[0].handle, g[0].token));
    take(e, 42, g);
    unit_healthy(e);
    enq_close(e);
}

TEST(slabs_of_a_closed_session_are_used_again)
{
    struct enq_grant g[42];

    for (int i = 0; i < 50; i++) {
        struct enq *e = open_for(42);

        take(e, 42, g);
        enq_close(e);
    }
}

TEST(slabs_of_a_closed_session_are_used_before_new_ones)
{
    struct enq_grant g[42];
    struct enq *other = open_for(2100);

    for (int i = 0; i < 50; i++) {
        struct enq *e = open_for(2100);

        take(e, 42, g);
        ck_assert_uint_le(e->map->h->pages_used, 4);
        enq_close(e);
    }
    enq_close(other);
}

static void die_claiming(const struct point *p)
{
    if (strcmp(p->name, "slab.claimed") == 0)
        kill(getpid(), SIGKILL);
}

static int take_and_die(void *unused)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)unused;
    point_hook = die_claiming;
    unit_lock(e, "n", "a", ENQ_MODE_X, &g);
    return 1;
}

/* It is counted; and taken by others, once the session of the dead is reaped. */
TEST(a_page_whose_claim_was_not_finished_is_taken_by_others)
{
    struct enq *e = unit_open();
    struct seg_header *h = e->map->h;
    struct enq_grant g[SMALL_PER_PAGE];
    uint32_t used = h->pages_used, deads;

    unit_killed(unit_fork(take_and_die, NULL));
    ck_assert_uint_ne(e->map->pages[used].kind, PAGE_FREE);
    deads = shm_load(&e->map->pages[used].owner);
    take(e, SMALL_PER_PAGE, g);
    eventually(deads == 0 || shm_load(&e->map->pages[used].owner) != deads);
    want(ENQ_OK, unit_lock(e, "m", "a", ENQ_MODE_X, g));
    ck_assert_uint_eq(h->pages_used, used + 2);
    ck_assert_uint_eq(h->slab_pages, used + 2);
    unit_healthy(e);
    enq_close(e);
}

/* A session that looks for a slab of one size finds none, all the way round. */
TEST(a_slab_that_is_too_large_is_left_for_those_who_need_it)
{
    struct enq *first = open_for(2100), *next = open_for(2100);
    char text[ENQ_KEY_BYTES / 2];
    struct enq_grant g[64];
    uint32_t slabs;

    long_text(text, sizeof(text) - 1);
    want(ENQ_OK, unit_lock(first, "n", text, ENQ_MODE_X, &g[0]));
    enq_close(first);
    take(next, 64, g);
    slabs = next->map->h->slab_pages;
    want(ENQ_OK, unit_lock(next, "n", text, ENQ_MODE_X, &g[0]));
    ck_assert_uint_eq(next->map->h->slab_pages, slabs);
    unit_healthy(next);
    enq_close(next);
}

/* --- large entries --- */

/* name 2, field n, owner 3 bytes: small up to SMALL_PAYLOAD. */
TEST(payloads_around_the_small_size_are_kept_whole)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;
    char text[200];
    size_t total;

    for (size_t n = SMALL_PAYLOAD - 10; n < SMALL_PAYLOAD + 10; n++) {
        long_text(text, n);
        want(ENQ_OK, unit_lock(e, "n", text, ENQ_MODE_X, &g));
        want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
        ck_assert_uint_eq(total, 1);
        ck_assert_str_eq(info.key, text);
        ck_assert_str_eq(info.owner, "me");
        unit_healthy(e);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    enq_close(e);
}

TEST(the_largest_request_is_kept_whole)
{
    char name[ENQ_NAME_BYTES], owner[ENQ_OWNER_BYTES], id[ENQ_ID_BYTES],
        key[ENQ_KEY_BYTES], got[ENQ_ID_BYTES];
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = long_text(name, sizeof(name) - 1),
                .key = {long_text(key, sizeof(key) - 1)},
                .owner = long_text(owner, sizeof(owner) - 1),
                .id = long_text(id, sizeof(id) - 1), .mode = ENQ_MODE_O),
            &g));
    want(ENQ_OK, enq_list(e, name, owner, &info, 1, NULL));
    ck_assert_str_eq(info.name, name);
    ck_assert_str_eq(info.key, key);
    ck_assert_str_eq(info.owner, owner);
    ck_assert_str_eq(info.id, id);
    want(ENQ_OK, enq_id(e, g.handle, got));
    ck_assert_str_eq(got, id);
    want(ENQ_OK, enq_promote(e, g.handle, g.token, &g));
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    unit_healthy(e);
    want(ENQ_OK, enq_unlock(e, g.handle, 0));
    unit_healthy(e);
    enq_close(e);
}

TEST(large_entries_are_given_back_and_taken_again)
{
    struct enq *e = open_for(210);
    char text[ENQ_KEY_BYTES];
    struct enq_grant g[30], none;

    long_text(text, 400);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 30; i++) {
            text[0] = (char)('A' + i);
            want(ENQ_OK, unit_lock(e, "n", text, ENQ_MODE_X, &g[i]));
        }
        text[0] = '?';
        want(ENQ_EFULL, unit_lock(e, "n", text, ENQ_MODE_X, &none));
        unit_healthy(e);
        for (int i = 0; i < 30; i++)
            want(ENQ_OK, enq_unlock(e, g[i].handle, 0));
    }
    enq_close(e);
}

/* No look through all slabs for each: a session may have 100,000 of them. */
TEST(a_large_entry_that_is_given_back_lies_at_hand)
{
    struct enq *e = open_for(2100);
    const struct thread *t = thread_enter(e->map);
    char text[ENQ_KEY_BYTES];
    struct enq_grant g[90], more;
    unsigned at_hand;

    long_text(text, 400);
    for (int i = 0; i < 90; i++) {
        text[0] = (char)('!' + i);
        want(ENQ_OK, unit_lock(e, "n", text, ENQ_MODE_X, &g[i]));
    }
    at_hand = t->magazine->large.n;
    want(ENQ_OK, enq_unlock(e, g[7].handle, 0));
    ck_assert_uint_eq(t->magazine->large.n, at_hand + 1);
    want(ENQ_OK, unit_lock(e, "other", text, ENQ_MODE_X, &more));
    ck_assert_uint_eq((more.handle ^ g[7].handle) << (64 - HANDLE_REF_BITS), 0);
    ck_assert_uint_eq(t->magazine->large.n, at_hand);
    unit_healthy(e);
    enq_close(e);
}

/* Of one that was taken away its holder is still to hear; but there is need. */
TEST(what_is_gone_makes_room_at_once_where_there_is_none)
{
    struct enq_grant g[SMALL_PER_PAGE];
    struct enq *e = open_for(SMALL_PER_PAGE);
    struct thread *t = thread_enter(e->map);
    char id[ENQ_ID_BYTES];
    struct entry *entry;

    take(e, LENGTH(g), g);
    want(ENQ_OK, enq_id(e, g[7].handle, id));
    want(ENQ_OK, enq_break(e, id));
    want(ENQ_OK, slab_take(&e->session, t, &entry));
    slab_give(&e->session, t, entry);
    unit_healthy(e);
    enq_close(e);
}

/* --- handles --- */

TEST(a_handle_is_never_used_for_another_lock)
{
    enum { ROUNDS = 5000 };
    enq_handle *handle = calloc(ROUNDS, sizeof(*handle));
    struct enq *e = open_for(21);
    struct enq_grant g;

    for (int i = 0; i < ROUNDS; i++) {
        want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
        handle[i] = g.handle;
        ck_assert_uint_ne(g.handle, 0);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_uint_ne(handle[i], g.handle);
        want(ENQ_NOTHELD, enq_valid(e, handle[i]));
        want(ENQ_NOTHELD, enq_unlock(e, handle[i], 0));
    }
    want(ENQ_OK, enq_valid(e, g.handle));
    free(handle);
    enq_close(e);
}

TEST(random_handles_name_nothing)
{
    struct enq *e = unit_open();
    uint64_t dice = unit_seed();
    char id[ENQ_ID_BYTES];
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    for (int i = 0; i < 20000; i++) {
        enq_handle h = unit_random(&dice);

        if (i % 2)
            h = (h & ~UINT64_C(0x3fffffff)) | (g.handle & 0x3fffffff);
        if (h == g.handle)
            continue;
        want(ENQ_NOTHELD, enq_valid(e, h));
        want(ENQ_NOTHELD, enq_unlock(e, h, 0));
        want(ENQ_NOTHELD, enq_renew(e, h, 0, 0));
        want(ENQ_NOTHELD, enq_id(e, h, id));
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(a_thousand_refusals_cost_no_entries)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 42};
    struct enq *e = unit_open_with(&opts);
    struct enq_grant g, other;

    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "a"),
            &g));
    for (int i = 0; i < 1000; i++)
        want(ENQ_BUSY,
            enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "b"),
                &other));
    enq_close(e);
}

int main(void)
{
    unit_begin("slab");
    ADD_LOOP(a_table_takes_as_many_locks_as_it_was_made_for, LENGTH(slots_of));
    ADD_LOOP(a_full_table_goes_on_when_one_lock_is_given_back,
        LENGTH(slots_of));
    ADD(a_full_table_loses_nothing_and_counts_who_filled_it);
    ADD(a_lock_that_another_thread_gave_back_makes_room);
    ADD(one_that_another_thread_gave_back_is_taken_before_a_new_page);
    ADD(slabs_of_a_dead_session_are_used_again);
    ADD(slabs_of_a_closed_session_are_used_again);
    ADD(slabs_of_a_closed_session_are_used_before_new_ones);
    ADD(a_page_whose_claim_was_not_finished_is_taken_by_others);
    ADD(a_slab_that_is_too_large_is_left_for_those_who_need_it);
    ADD(payloads_around_the_small_size_are_kept_whole);
    ADD(the_largest_request_is_kept_whole);
    ADD(what_is_gone_makes_room_at_once_where_there_is_none);
    ADD(large_entries_are_given_back_and_taken_again);
    ADD(a_large_entry_that_is_given_back_lies_at_hand);
    ADD(a_handle_is_never_used_for_another_lock);
    ADD(random_handles_name_nothing);
    ADD(a_thousand_refusals_cost_no_entries);
    return unit_end();
}
