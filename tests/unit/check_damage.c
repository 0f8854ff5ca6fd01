/*
 * check_damage.c - what is true is scribbled over: it is found, and nobody
 * crashes. (What is derived: check_recover.c.)
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/point.h"
#include "lock/transition.h"
#include "store/mark.h"
#include "store/walk.h"
#include "ward.h"

static void long_name(struct entry *e)
{
    e->name_bytes = 60000;
}

static void long_fields(struct entry *e)
{
    e->field_bytes = UINT16_MAX;
}

static void many_fields(struct entry *e)
{
    e->fields = 200;
}

static void no_owner(struct entry *e)
{
    e->owner_bytes = 0;
}

static void long_id(struct entry *e)
{
    e->id_bytes = 129;
}

static void no_zero_after_the_owner(struct entry *e)
{
    memset(e->payload + e->name_bytes + e->field_bytes, 'z', e->owner_bytes);
}

static void no_zero_after_the_name(struct entry *e)
{
    memset(e->payload, 'z', e->name_bytes);
}

static void unknown_mode(struct entry *e)
{
    e->state |= 0xf0;
}

static void (*const damages[])(struct entry *e) = {
    long_name,
    long_fields,
    many_fields,
    no_owner,
    long_id,
    no_zero_after_the_owner,
    no_zero_after_the_name,
    unknown_mode,
};

/* One of two, so that the damaged one is met; fewer than 16 audited calls. */
TEST(a_damaged_entry_is_found_and_crashes_nobody)
{
    struct enq *e = unit_open();
    char report[8192], id[ENQ_ID_BYTES];
    struct enq_grant a, b;
    struct enq_info info[4];
    struct ward w = {.e = e, .map = e->map};

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &a));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &b));
    w.g[0] = a;
    damages[_i](ward_entry(&w, 0));
    ck_assert_int_ne(ward_look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "damaged texts") != NULL, "%s", report);
    unit_lock(e, "n", "f", ENQ_MODE_X, &b);
    unit_lock(e, "n", "@", ENQ_MODE_X, &b);
    enq_list(e, NULL, NULL, info, 4, NULL);
    enq_id(e, a.handle, id);
    enq_promote(e, a.handle, 0, NULL);
    enq_unlock(e, a.handle, 0);
    ward_look(&w, ENQ_DOCTOR_FIX, report);
    enq_close(e);
}

/* Its key says which of the waiters are to be looked at: without it none of them
   is granted, and so it is not given up either. */
TEST(a_damaged_lock_that_others_wait_for_is_not_given_back)
{
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    struct enq_grant later;
    uint64_t ticket;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &w.g[0]));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &later, &ticket));
    no_zero_after_the_name(ward_entry(&w, 0));
    want(ENQ_ECORRUPT, enq_unlock(e, w.g[0].handle, 0));
    want(ENQ_OK, enq_valid(e, w.g[0].handle));
    ck_assert_uint_eq(unit_stats(e).waiting, 1);
    enq_close(e);
}

/* Somebody that sleeps until it is woken: there are no ticks. */
struct sleeper {
    struct enq *e;
    const char *field;
    pthread_t thread;
    struct entry *entry;
    struct enq_grant g;
    int rc;
};

static void *sleep_for_it(void *sleeper)
{
    struct sleeper *s = sleeper;

    s->rc = enq_lock(s->e,
        ENQ_REQ(.name = "n", .key = {s->field}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER),
        &s->g);
    return NULL;
}

static bool is_asleep(void *sleeper, struct entry *e, uint64_t state)
{
    if (STATE_PHASE(state) == PHASE_WAITING && entry_sleeps(e) == ASLEEP_THREAD)
        ((struct sleeper *)sleeper)->entry = e;
    return true;
}

static bool sleeps(struct sleeper *s)
{
    slab_each(s->e->map, is_asleep, s);
    return s->entry != NULL;
}

/* Whoever is woken does not look before it may, as the table is damaged for a
   moment. */
static uint32_t may_not_look, stands;

static void stand_still(const struct point *point)
{
    if (strcmp(point->name, "wait.woken") != 0)
        return;
    while (shm_load_acquire(&may_not_look)) {
        shm_store(&stands, 1);
        unit_nap();
    }
}

static void keep_from_looking(struct sleeper *s)
{
    point_hook = stand_still;
    shm_store_release(&may_not_look, 1);
    eventually(shm_load(&stands) || entry_sleeps(s->entry) == ASLEEP_THREAD);
}

static void falls_asleep(struct sleeper *s, struct enq *e, const char *field)
{
    *s = (struct sleeper){.e = e, .field = field};
    pthread_create(&s->thread, NULL, sleep_for_it, s);
    eventually(sleeps(s));
    keep_from_looking(s);
}

static void wakes_with(struct sleeper *s, int rc)
{
    shm_store_release(&may_not_look, 0);
    pthread_join(s->thread, NULL);
    want(rc, s->rc);
}

static struct ward ward_without_ticks(void)
{
    struct ward w = {0};

    setenv("ENQ_TICK_MS", "600000", 1);
    w.e = unit_open();
    w.map = w.e->map;
    return w;
}

/* Nobody else looks at the texts of one that waits. */
TEST(a_damaged_waiter_is_found)
{
    struct ward w = ward_without_ticks();
    struct sleeper waiter;
    uint16_t bytes;
    char report[8192];

    want(ENQ_OK, unit_lock(w.e, "n", "f", ENQ_MODE_X, &w.g[0]));
    falls_asleep(&waiter, w.e, "f");
    bytes = waiter.entry->name_bytes;
    waiter.entry->name_bytes = 60000;
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "damaged lengths") != NULL, "%s", report);
    waiter.entry->name_bytes = bytes;
    want(ENQ_OK, enq_unlock(w.e, w.g[0].handle, 0));
    wakes_with(&waiter, ENQ_OK);
    unit_healthy(w.e);
    enq_close(w.e);
}

static bool find_waiter(void *waiter, struct entry *e, uint64_t state)
{
    if (STATE_PHASE(state) == PHASE_WAITING)
        *(struct entry **)waiter = e;
    return true;
}

/* Its helper looks at it as its time is over: at an entry that says no more what
   was asked for. */
TEST(a_started_request_that_is_damaged_ends_and_says_so)
{
    struct ward w = ward_without_ticks();
    struct enq_event event = {0};
    struct entry *waiter = NULL;
    struct enq_grant later;
    uint64_t ticket;
    uint16_t bytes;

    want(ENQ_OK, unit_lock(w.e, "n", "f", ENQ_MODE_X, &w.g[0]));
    want(ENQ_PENDING,
        enq_start(w.e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .wait_ms = 300),
            &later, &ticket));
    slab_each(w.map, find_waiter, &waiter);
    ck_assert_ptr_nonnull(waiter);
    bytes = waiter->name_bytes;
    waiter->name_bytes = 60000;
    eventually(enq_next(w.e, &event) == ENQ_OK);
    ck_assert_uint_eq(event.ticket, ticket);
    want(ENQ_ECORRUPT, event.result);
    waiter->name_bytes = bytes;
    enq_close(w.e);
}

/* The lock that is given back is another, and what is damaged is in the way of a
   waiter for both: of that is not known whether it may go. */
TEST(a_waiter_for_all_keys_does_not_go_past_a_damaged_one)
{
    struct ward w = ward_without_ticks();
    struct sleeper waiter;
    uint32_t next;

    want(ENQ_OK, unit_lock(w.e, "n", "f", ENQ_MODE_S, &w.g[0]));
    want(ENQ_OK, unit_lock(w.e, "n", "g", ENQ_MODE_S, &w.g[1]));
    falls_asleep(&waiter, w.e, "@");
    next = ward_entry(&w, 0)->next;
    ward_entry(&w, 0)->next = UINT32_MAX;
    want(ENQ_ECORRUPT, enq_unlock(w.e, w.g[1].handle, 0));
    ward_entry(&w, 0)->next = next;
    ck_assert_uint_eq(unit_stats(w.e).waiting, 1);
    want(ENQ_OK, enq_unlock(w.e, w.g[0].handle, 0));
    wakes_with(&waiter, ENQ_OK);
    unit_healthy(w.e);
    enq_close(w.e);
}

/* It is not where its hash says. */
TEST(a_waiter_that_cannot_be_granted_for_damage_is_told_of_and_waits_on)
{
    struct ward w = ward_without_ticks();
    struct sleeper waiter;

    want(ENQ_OK, unit_lock(w.e, "n", "@", ENQ_MODE_X, &w.g[0]));
    falls_asleep(&waiter, w.e, "f");
    waiter.entry->hash ^= 1;
    want(ENQ_ECORRUPT, enq_unlock(w.e, w.g[0].handle, 0));
    waiter.entry->hash ^= 1;
    ck_assert_uint_eq(unit_stats(w.e).waiting, 1);
    want(ENQ_OK, enq_unlock(w.e, entry_handle(w.map, waiter.entry), 0));
    wakes_with(&waiter, ENQ_CANCELLED);
    unit_healthy(w.e);
    enq_close(w.e);
}

/* No request on another key meets it, and what it says of itself but for its
   key is looked at nowhere else. With _i by a session that only looks. */
TEST(the_texts_of_a_generic_lock_are_looked_at_as_well)
{
    struct enq_open_opts looks = {
        .size = sizeof(looks), .flags = ENQ_OPEN_READONLY};
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    char report[8192];

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &w.g[0]));
    no_zero_after_the_owner(ward_entry(&w, 0));
    if (_i == 1)
        want(ENQ_OK, enq_open(&w.e, unit_space(), &looks));
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "damaged texts") != NULL, "%s", report);
    if (_i == 1)
        enq_close(w.e);
    enq_close(e);
}

TEST(a_token_above_all_is_found)
{
    char report[8192];
    struct ward w = ward_fill();

    ward_entry(&w, 3)->token = UINT64_MAX / 2;
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_ptr_nonnull(strstr(report, "I7"));
    enq_close(w.e);
}

/* "f" is held, and somebody waits for it, or for all. */
static struct entry *one_that_waits(struct ward *w, bool for_all)
{
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_OK, unit_lock(w->e, "n", "f", ENQ_MODE_X, &w->g[0]));
    want(ENQ_PENDING,
        enq_start(w->e,
            ENQ_REQ(.name = "n", .key = {for_all ? "@" : "f"},
                .mode = ENQ_MODE_X, .owner = "other", .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    if (!for_all)
        return at_entry(w->map, ward_entry(w, 0)->next);
    return at_entry(w->map,
        w->map->gates[gate_of_hash(ward_entry(w, 0)->name_hash)].head);
}

/* Strict with _i & 2: there nobody has one. */
TEST(a_window_that_is_longer_than_any_is_found_and_ended)
{
    struct enq_open_opts opts = {.size = sizeof(opts),
        .strict = _i & 2 ? ENQ_STRICT_YES : ENQ_STRICT_NO};
    struct enq *e = unit_open_with(&opts);
    struct ward w = {.e = e, .map = e->map};
    struct entry *waiter = one_that_waits(&w, _i & 1);
    uint32_t longest = _i & 2 ? 0 : WINDOW_MOST_NS;
    char report[8192];

    ck_assert(entry_is(waiter, PHASE_WAITING));
    shm_store(&waiter->window_ns, longest);
    ck_assert_msg(ward_look(&w, 0, report) == 0, "%s", report);
    shm_store(&waiter->window_ns, longest + 1);
    ck_assert_int_eq(ward_look(&w, 0, report), 1);
    ck_assert_msg(strstr(report, "I8") != NULL, "%s", report);
    ck_assert_msg(ward_look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    ck_assert_uint_eq(shm_load(&waiter->window_ns), 0);
    enq_close(e);
}

TEST(a_waiter_in_a_page_without_a_mark_is_found_and_its_page_is_marked)
{
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    struct entry *waiter = one_that_waits(&w, _i & 1);
    char report[8192];

    ck_assert_msg(ward_look(&w, 0, report) == 0, "%s", report);
    shm_store(&w.map->marks[map_page_at(w.map, waiter)], 0);
    ck_assert_int_eq(ward_look(&w, 0, report), 1);
    ck_assert_msg(strstr(report, "I9") != NULL, "%s", report);
    ck_assert_msg(ward_look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    ck_assert(mark_is_there(w.map, waiter));
    enq_close(e);
}

/* Two owners' locks, of which one becomes X by itself: of one object, or one
   of them generic. */
TEST(locks_that_exclude_each_other_are_found)
{
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    char report[8192];

    for (int i = 0; i < 2; i++)
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {i == _i ? "@" : "f"},
                    .mode = ENQ_MODE_S, .owner = i ? "A" : "B"),
                &w.g[i]));
    unit_healthy(e);
    ward_entry(&w, 0)->state ^= STATE(0, 0, ENQ_MODE_S ^ ENQ_MODE_X, 0);
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "I5") != NULL, "%s", report);
    enq_close(e);
}

TEST(a_page_of_an_unknown_kind_is_found)
{
    char report[8192];
    struct ward w = ward_fill();

    w.map->pages[w.map->h->pages_used - 1].kind = 9;
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_ptr_nonnull(strstr(report, "I6"));
    enq_close(w.e);
}

int main(void)
{
    unit_begin("damage");
    ADD_LOOP(a_damaged_entry_is_found_and_crashes_nobody, LENGTH(damages));
    ADD(a_damaged_lock_that_others_wait_for_is_not_given_back);
    ADD(a_damaged_waiter_is_found);
    ADD(a_started_request_that_is_damaged_ends_and_says_so);
    ADD(a_waiter_for_all_keys_does_not_go_past_a_damaged_one);
    ADD(a_waiter_that_cannot_be_granted_for_damage_is_told_of_and_waits_on);
    ADD_LOOP(the_texts_of_a_generic_lock_are_looked_at_as_well, 2);
    ADD(a_token_above_all_is_found);
    ADD_LOOP(a_window_that_is_longer_than_any_is_found_and_ended, 4);
    ADD_LOOP(a_waiter_in_a_page_without_a_mark_is_found_and_its_page_is_marked,
        2);
    ADD_LOOP(locks_that_exclude_each_other_are_found, 3);
    ADD(a_page_of_an_unknown_kind_is_found);
    return unit_end();
}
