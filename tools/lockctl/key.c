/*
 * key.c - see key.h. Pure. libenq decides what is granted; this says only
 * which rows of a list belong to an object.
 */
#include "key.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

static void add_field(struct key *key, const char *field, bool literal)
{
    if (strcmp(field, "@") == 0 && !literal)
        key->any |= 1u << key->n;
    key->field[key->n++] = field;
}

void key_of_info(struct key *key, const struct enq_info *info)
{
    const char *field = info->key;

    *key = (struct key){.name = info->name};
    for (unsigned i = 0; i < info->fields && i < ENQ_KEY_FIELDS_MAX; i++) {
        add_field(key, field, info->literal >> i & 1);
        field += strlen(field) + 1;
    }
}

void key_of_req(struct key *key, const struct enq_req *req)
{
    *key = (struct key){.name = req->name};
    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX && req->key[i] != NULL; i++)
        add_field(key, req->key[i], req->literal >> i & 1);
}

bool key_overlap(const struct key *a, const struct key *b)
{
    uint32_t any = a->any | b->any;

    if (a->n != b->n || strcmp(a->name, b->name) != 0)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if ((any >> i & 1) == 0 && strcmp(a->field[i], b->field[i]) != 0)
            return false;
    return true;
}

int key_order(const struct key *a, const struct key *b)
{
    int order = strcmp(a->name, b->name);

    if (order == 0)
        order = (int)a->n - (int)b->n;
    for (unsigned i = 0; order == 0 && i < a->n; i++)
        order = strcmp(a->field[i], b->field[i]);
    return order;
}

/* Appends a part, with a '\' before what would end or change it, and what is
   not fit to be seen as \xHH. */
static char *put_part(char *at, const char *part, bool literal_at)
{
    const char *from = part;

    if (literal_at)
        *at++ = '\\';
    while (*from != '\0') {
        size_t n = text_fit_name(part, from);
        if (n == 0)
            at += sprintf(at, "\\x%02x", (unsigned char)*from++);
        if (n == 1 && (*from == '/' || *from == '\\'))
            *at++ = '\\';
        memcpy(at, from, n);
        at += n;
        from += n;
    }
    return at;
}

static char *put_fields(char *at, const struct key *key)
{
    for (unsigned i = 0; i < key->n; i++) {
        bool literal_at =
            strcmp(key->field[i], "@") == 0 && (key->any >> i & 1) == 0;
        if (i > 0)
            *at++ = '/';
        at = put_part(at, key->field[i], literal_at);
    }
    return at;
}

void key_name_spec(char out[KEY_SPEC_BYTES], const struct key *key)
{
    *put_part(out, key->name, false) = '\0';
}

void key_fields_spec(char out[KEY_SPEC_BYTES], const struct key *key)
{
    *put_fields(out, key) = '\0';
}

void key_spec(char out[KEY_SPEC_BYTES], const struct key *key)
{
    char *at = put_part(out, key->name, false);

    if (key->n > 0) {
        *at++ = '/';
        at = put_fields(at, key);
    }
    *at = '\0';
}
