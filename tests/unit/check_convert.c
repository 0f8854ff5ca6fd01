/*
 * check_convert.c - a page with nothing in it is made one of the other size
 * while a reader looks at it: texts stand then where it expects entries, and
 * may read as whatever it looks for.
 */
#include <stdio.h>
#include <string.h>

#include "api/attachment.h"
#include "lock/hold_end.h"
#include "unit.h"

#define SLOTS SMALL_PER_PAGE /* one page */
#define ODD 2                /* where no large entry begins */

static struct {
    struct enq *e, *f;
    struct enq_grant small[SLOTS], large;
    struct entry *forged; /* in a text of the large one */
    char before[sizeof(struct entry)];
} page;

static struct enq *open_one_page(void)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = SLOTS, .owner = "me"};

    return unit_open_with(&opts);
}

static void fill(void)
{
    char key[16];

    page.e = open_one_page();
    page.f = open_one_page();
    for (unsigned i = 0; i < SLOTS; i++) {
        snprintf(key, sizeof(key), "%u", i);
        want(ENQ_OK, unit_lock(page.e, "n", key, ENQ_MODE_X, &page.small[i]));
    }
}

/* A lock that has run out, of a session that is dead, just as the one that was
   there: as a text could have it. */
static void forge(const struct entry *was)
{
    struct entry *e = page.forged;

    memcpy((void *)e, was, sizeof(*e));
    e->deadline_ns = 1;
    e->on_death = ENQ_DEATH_RELEASE;
    e->next = e->prev = map_ref(page.e->map, e);
    memcpy(page.before, e, sizeof(*e));
}

static void convert(void)
{
    uint64_t state;
    struct entry was,
        *e = entry_of_handle(page.e->map, page.small[ODD].handle, &state);
    char key[300];

    ck_assert_ptr_nonnull(e);
    was = *e;
    for (unsigned i = 0; i < SLOTS; i++)
        want(ENQ_OK,
            enq_unlock(page.e, page.small[i].handle, page.small[i].token));
    slab_shed(&page.e->session);
    snprintf(key, sizeof(key), "%0200u", 1u);
    want(ENQ_OK, unit_lock(page.f, "large", key, ENQ_MODE_X, &page.large));
    page.forged = e;
    forge(&was);
}

static void is_untouched(void)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    ck_assert_int_eq(memcmp(page.before, page.forged, sizeof(page.before)), 0);
    want(ENQ_OK, enq_valid(page.f, page.large.handle));
    want(ENQ_OK, enq_stat(page.f, &stats));
    ck_assert_uint_eq(stats.held, 1);
    ck_assert_uint_eq(stats.expired + stats.expiries, 0);
    unit_healthy(page.f);
    enq_close(page.f);
    enq_close(page.e);
}

/* --- a handle that is out of date --- */

TEST(a_text_is_nobodys_lock_by_an_old_handle)
{
    const struct enq_grant *old = &page.small[ODD];
    char id[ENQ_ID_BYTES];
    uint64_t token = 0;
    enq_handle found;

    fill();
    want(ENQ_OK, enq_id(page.e, old->handle, id));
    convert();
    want(ENQ_NOTHELD, enq_valid(page.e, old->handle));
    want(ENQ_NOTHELD, enq_unlock(page.e, old->handle, old->token));
    want(ENQ_NOTHELD, enq_unlock(page.e, old->handle, 0));
    want(ENQ_NOTHELD, enq_renew(page.e, old->handle, 0, 1000));
    want(ENQ_NOTHELD, enq_promote(page.e, old->handle, token, NULL));
    want(ENQ_NOTHELD, enq_demote(page.e, old->handle, 0));
    want(ENQ_NOTHELD, enq_find(page.e, id, &found));
    want(ENQ_NOTHELD, enq_break(page.e, id));
    is_untouched();
}

/* --- a thread that just looks --- */

static unsigned converted;

/* It has read what the page holds, and reads on when that is something else.
 */
static void stand_still(const struct point *p)
{
    if (strcmp(p->name, "slab.page_read") != 0)
        return;
    point_hook = NULL;
    converted++;
    convert();
}

static void sweep(void)
{
    hold_sweep_all(&page.f->session, thread_enter(page.f->map));
}

static void count_all(void)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    want(ENQ_OK, enq_stat(page.f, &stats));
    ck_assert_uint_eq(stats.held + stats.expired, 0); /* or the large one */
}

static void list_all(void)
{
    struct enq_info info;
    size_t total;

    want(ENQ_OK, enq_list(page.f, NULL, NULL, &info, 1, &total));
    ck_assert_uint_le(total, 1);
}

static void reap_own(void)
{
    ck_assert_int_eq(hold_release_all(&page.f->session,
                         thread_enter(page.f->map), page.e->session.ref,
                         GONE_DIED),
        0);
}

static void (*const looks[])(void) = {sweep, count_all, list_all, reap_own};

TEST(a_text_is_nobodys_lock_to_who_is_slow)
{
    converted = 0;
    fill();
    point_hook = stand_still;
    looks[_i]();
    ck_assert_uint_eq(converted, 1);
    is_untouched();
}

int main(void)
{
    unit_begin("convert");
    ADD(a_text_is_nobodys_lock_by_an_old_handle);
    ADD_LOOP(a_text_is_nobodys_lock_to_who_is_slow, LENGTH(looks));
    return unit_end();
}
