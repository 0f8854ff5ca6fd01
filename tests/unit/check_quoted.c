/*
 * check_quoted.c - texts of callers in the sentences of enq_why(): whole, so
 * that none passes for another; as a spec, which can be read back; without what
 * may be a secret.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rules/spec.h"
#include "unit.h"

/* The longest that are legal; two of a kind differ in the last byte only. */
struct longest {
    char name[ENQ_NAME_BYTES], field[ENQ_KEY_BYTES];
    char owner[2][ENQ_OWNER_BYTES], id[ENQ_ID_BYTES];
};

static void fill(char *text, size_t bytes, char with, char last)
{
    memset(text, with, bytes - 2);
    text[bytes - 2] = last;
    text[bytes - 1] = '\0';
}

static struct longest longest(void)
{
    struct longest l = {0};

    fill(l.name, sizeof(l.name), 'n', '1');
    fill(l.field, sizeof(l.field), 'f', '2');
    fill(l.owner[0], sizeof(l.owner[0]), 'o', '3');
    fill(l.owner[1], sizeof(l.owner[1]), 'o', '4');
    fill(l.id, sizeof(l.id), 'i', '5');
    return l;
}

static int lock_as(struct enq *e, const struct longest *l, unsigned who,
    enum enq_mode mode, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = l->name, .key = {l->field}, .mode = mode,
            .owner = l->owner[who]),
        g);
}

static void says(const char *text)
{
    if (strstr(enq_why(), text) == NULL)
        ck_abort_msg("\"%s\" is not in: %s", text, enq_why());
}

static void says_not(const char *text)
{
    if (strstr(enq_why(), text) != NULL)
        ck_abort_msg("\"%s\" is in: %s", text, enq_why());
}

TEST(a_refusal_names_the_whole_key_and_the_whole_owner)
{
    struct enq *e = unit_open();
    struct longest l = longest();
    struct enq_grant g, h;

    want(ENQ_OK, lock_as(e, &l, 0, ENQ_MODE_X, &g));
    want(ENQ_BUSY, lock_as(e, &l, 1, ENQ_MODE_X, &h));
    says(l.name);
    says(l.field);
    says(l.owner[0]);
    says_not(l.owner[1]);
    enq_close(e);
}

TEST(a_promotion_that_is_lost_names_the_whole_winner)
{
    struct enq *e = unit_open();
    struct longest l = longest();
    struct enq_grant g, h;

    want(ENQ_OK, lock_as(e, &l, 0, ENQ_MODE_O, &g));
    want(ENQ_OK, lock_as(e, &l, 1, ENQ_MODE_O, &h));
    want(ENQ_OK, enq_promote(e, g.handle, 0, &g));
    want(ENQ_LOST, enq_promote(e, h.handle, 0, &h));
    says(l.owner[0]);
    enq_close(e);
}

TEST(a_lock_of_a_set_is_named_whole)
{
    struct enq *e = unit_open();
    struct longest l = longest();
    struct enq_req a = *ENQ_REQ(.name = l.name, .key = {l.field},
                       .mode = ENQ_MODE_X, .owner = l.owner[0]),
                   b = a;
    const struct enq_req *reqs[] = {&a, &b};
    struct enq_grant g[2], other;

    b.owner = l.owner[1];
    want(-EINVAL, enq_lock_set(e, reqs, 2, g));
    says(l.owner[0]);
    says(l.owner[1]);
    b.owner = a.owner;
    want(-EINVAL, enq_lock_set(e, reqs, 2, g));
    says(l.name);
    b.key[0] = "f";
    want(ENQ_OK, lock_as(e, &l, 1, ENQ_MODE_X, &other));
    want(ENQ_BUSY, enq_lock_set(e, reqs, 2, g));
    says(l.field);
    says(l.owner[1]);
    enq_close(e);
}

TEST(a_token_that_is_not_held_names_the_whole_object)
{
    struct enq *e = unit_open();
    struct longest l = longest();

    want(ENQ_NOTHELD,
        enq_check(e, l.name, (const char *const[]){l.field, NULL}, 7));
    says(l.name);
    enq_close(e);
}

TEST(a_cycle_names_whole_owners_and_keys)
{
    struct enq *e = unit_open();
    struct longest l = longest();
    struct enq_req r = *ENQ_REQ(.name = "n", .key = {l.field},
        .mode = ENQ_MODE_X, .owner = l.owner[0], .wait_ms = ENQ_FOREVER);
    struct enq_grant g;
    uint64_t ticket;

    r.wait_ms = 0;
    want(ENQ_OK, enq_lock(e, &r, &g));
    r.owner = l.owner[1];
    r.key[0] = "b/c";
    want(ENQ_OK, enq_lock(e, &r, &g));
    r.wait_ms = ENQ_FOREVER;
    r.key[0] = l.field;
    want(ENQ_PENDING, enq_start(e, &r, &g, &ticket));
    r.owner = l.owner[0];
    r.key[0] = "b/c";
    want(ENQ_DEADLOCK, enq_lock(e, &r, &g));
    says(l.owner[0]);
    says(l.owner[1]);
    says(l.field);
    says("n/b\\/c");
    enq_close(e);
}

static const struct {
    const char *name, *key[3];
    unsigned literal;
    const char *spec;
} forms[] = {
    {"n", {NULL}, 0, "n is locked by "},
    {"n", {"", "", NULL}, 0, "n// is locked by "},
    {"n", {"a/b", NULL}, 0, "n/a\\/b is locked by "},
    {"n", {"a", "b", NULL}, 0, "n/a/b is locked by "},
    {"n", {"@", NULL}, 0, "n/@ is locked by "},
    {"n", {"@", NULL}, 1, "n/\\@ is locked by "},
    {"n\\", {"a\nb", NULL}, 0, "n\\\\/a\\x0ab is locked by "},
};

TEST(a_key_is_told_as_a_spec)
{
    struct enq *e = unit_open();
    struct enq_req r = *ENQ_REQ(.name = forms[_i].name, .mode = ENQ_MODE_X,
        .owner = "first\nline");
    struct enq_grant g;

    memcpy(r.key, forms[_i].key, sizeof(forms[_i].key));
    r.literal = (uint16_t)forms[_i].literal;
    want(ENQ_OK, enq_lock(e, &r, &g));
    r.owner = "b";
    want(ENQ_BUSY, enq_lock(e, &r, &g));
    says(forms[_i].spec);
    says(" by first\\x0aline (");
    enq_close(e);
}

TEST(a_filter_that_no_lock_can_match_is_refused)
{
    struct enq *e = unit_open();
    char text[ENQ_NAME_BYTES + 1];
    size_t total = 7;

    memset(text, 'n', sizeof(text));
    text[ENQ_NAME_BYTES] = '\0';
    want(-ENAMETOOLONG, enq_list(e, text, NULL, NULL, 0, &total));
    says("object name");
    want(-ENAMETOOLONG, enq_list(e, NULL, text, NULL, 0, &total));
    says("owner");
    text[ENQ_NAME_BYTES - 1] = '\0';
    want(ENQ_OK, enq_list(e, text, text, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    enq_close(e);
}

static const char *const with_secrets[] = {
    "shm:x?token=hunter2",
    "/dev/shm/x?token=hunter2",
    "x?token=hunter2",
    "tcp://localhost?token=hunter2",
    "tcp://localhost:x?token=hunter2",
    "unix:relative?token=hunter2",
    "tls://localhost?token=hunter2",
};

TEST(an_address_is_told_without_its_options)
{
    struct enq *e;

    ck_assert_int_lt(enq_open(&e, with_secrets[_i], NULL), 0);
    says_not("hunter2");
}

int main(void)
{
    unit_begin("quoted");
    ADD(a_refusal_names_the_whole_key_and_the_whole_owner);
    ADD(a_promotion_that_is_lost_names_the_whole_winner);
    ADD(a_lock_of_a_set_is_named_whole);
    ADD(a_token_that_is_not_held_names_the_whole_object);
    ADD(a_cycle_names_whole_owners_and_keys);
    ADD_LOOP(a_key_is_told_as_a_spec, LENGTH(forms));
    ADD(a_filter_that_no_lock_can_match_is_refused);
    ADD_LOOP(an_address_is_told_without_its_options, LENGTH(with_secrets));
    return unit_end();
}
