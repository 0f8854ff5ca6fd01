/*
 * texts.c - what callers give as text: key specs, addresses, ids, options.
 * Specs are compared with a second reading of the same rules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/id.h"
#include "fuzz.h"
#include "rules/key.h"
#include "segment/file.h"

/* A copy that is exactly as long as it says: one byte more is a finding. */
static char *copy_text(struct feed *f)
{
    size_t n = (size_t)(f->end - f->at);
    char *text = malloc(n + 1);

    if (text == NULL)
        fuzz_fail("out of memory");
    memcpy(text, f->at, n);
    text[n] = '\0';
    return text;
}

/* --- specs --- */

struct part {
    char text[ENQ_KEY_BYTES * 2];
    bool escaped;
};

/* The part that begins at `spec`; where it ends, NULL: in a lone backslash. */
static const char *read_part(const char *spec, struct part *part)
{
    size_t n = 0;

    part->escaped = false;
    while (*spec != '\0' && *spec != '/') {
        bool is_escape = *spec == '\\';

        if (is_escape) {
            part->escaped = true;
            if (*++spec == '\0')
                return NULL;
        }
        if (is_escape && *spec == 'x') {
            unsigned byte;

            if (sscanf(spec, "x%2x", &byte) != 1)
                return NULL;
            part->text[n++] = (char)byte;
            spec += 3;
            continue;
        }
        part->text[n++] = *spec++;
    }
    part->text[n] = '\0';
    part->escaped &= strcmp(part->text, "@") == 0;
    return spec;
}

/* Of a spec shorter than a part's room: do the two readings agree? */
static bool agrees(const char *spec, const struct enq_req *req)
{
    struct part part;
    unsigned fields = 0;

    spec = read_part(spec, &part);
    if (spec == NULL || strcmp(part.text, req->name) != 0)
        return false;
    for (; *spec == '/'; fields++) {
        spec = read_part(spec + 1, &part);
        if (spec == NULL || fields == ENQ_KEY_FIELDS_MAX ||
            strcmp(part.text, req->key[fields]) != 0 ||
            part.escaped != (req->literal >> fields & 1))
            return false;
    }
    return fields == ENQ_KEY_FIELDS_MAX || req->key[fields] == NULL;
}

static void pack(const struct enq_req *req, size_t room)
{
    char *buf = malloc(room + 1);
    struct key key, other;
    char whole[KEY_BYTES_MAX];

    if (key_pack(&key, buf, room, req, 1) == 0) {
        if (key_bytes(&key) > room ||
            key_pack(&other, whole, sizeof(whole), req, 1) != 0)
            fuzz_fail("packed into too little room");
        if (!key_overlaps(&key, &other) || key.hash != other.hash)
            fuzz_fail("a key does not overlap itself");
    }
    free(buf);
}

static void spec(struct feed *f)
{
    size_t room = feed_word(f, 2) % (ENQ_NAME_BYTES + ENQ_KEY_BYTES + 1);
    char *buf = malloc(room + 1), *text;
    struct enq_req req = {.size = sizeof(req)};

    if (feed_byte(f) & 1)
        room = ENQ_NAME_BYTES + ENQ_KEY_BYTES;
    free(buf);
    buf = malloc(room + 1);
    text = copy_text(f);
    if (enq_spec_parse(text, &req, buf, room) == 0) {
        if (strlen(text) < ENQ_KEY_BYTES && !agrees(text, &req))
            fuzz_fail("\"%s\" is read in two ways", text);
        pack(&req, room);
    }
    free(text);
    free(buf);
}

/* --- the rest --- */

static void address(struct feed *f)
{
    char path[FILE_PATH_BYTES], *text = copy_text(f);
    const char *owner;

    if (file_path(text, path, &owner) == 0 &&
        (path[0] != '/' || strlen(path) >= FILE_PATH_BYTES ||
            strchr(path, '?') != NULL ||
            (owner == NULL) != (strchr(text, '?') == NULL)))
        fuzz_fail("\"%s\" leads to \"%s\"", text, path);
    free(text);
}

static void id(struct feed *f)
{
    char again[ID_TEXT_BYTES], *text = copy_text(f);
    uint64_t half, handle;

    if (id_parse(text, &half, &handle)) {
        id_text(half, handle, again);
        if (strcasecmp(text, again) != 0)
            fuzz_fail("id %s comes back as %s", text, again);
    }
    mode_from_letter(text);
    free(text);
}

static void options(struct feed *f)
{
    struct enq_open_opts ours;
    size_t room = (size_t)(f->end - f->at), given = feed_word(f, 2);
    char *theirs = copy_text(f);

    room = (size_t)(f->end - f->at);
    if (given > room)
        given = given < 60000 ? room : given + 6000;
    options_copy(&ours, sizeof(ours), theirs, given, "options");
    free(theirs);
}

void fuzz_texts(const uint8_t *data, size_t n)
{
    struct feed f = {data, data + n};

    switch (feed_byte(&f) % 8) {
    case 0:
        address(&f);
        break;
    case 1:
        id(&f);
        break;
    case 2:
        options(&f);
        break;
    default:
        spec(&f);
    }
}
